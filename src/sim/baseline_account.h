// Where the time of an iteration of the event model goes, by the same definitions as in rehearsal.h. Pure.
#pragma once
#include "flow/predict.h"

namespace tributary::sim {

// Means over the microbatches of an iteration, in seconds; redone_s and computed_s are sums over all machines.
struct WhereTimeGoes {
  double wait_s = 0;      // for admission, slots, busy machines and uplinks, and for deaths to be noticed
  double transfer_s = 0;  // on the wire, latency included
  double compute_s = 0;
  double last_s = 0;      // from the mean microbatch's end to the last one's
  double end_s = 0;       // from there to the end of the iteration
  double redone_s = 0;    // computing on what had been computed before
  double computed_s = 0;  // all computing, redone included
};

// `duration_s`: of the whole iteration. A microbatch that is computed or sent a second time waits meanwhile.
WhereTimeGoes where_time_goes(const flow::PredictWorld& world, const flow::PredictPlan& plan,
                              const flow::Prediction& prediction, const flow::PredictTrace& trace, double duration_s);

}  // namespace tributary::sim
