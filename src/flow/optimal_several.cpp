// The exact optimum for several data nodes, by GLPK. Variables: the flow of each data node on each link. The plan of
// the `planned` router is the incumbent: links whose reduced cost in the linear relaxation exceeds the gap can be in no
// better answer and are fixed at zero, which leaves a small integer program: find something cheaper, or prove that
// there is nothing.
#include <glpk.h>

#include <cmath>

#include "base/check.h"
#include "flow/planned.h"
#include "flow/routers.h"

namespace tributary::flow {
namespace {

constexpr double kRounding = 1e-5;

struct Arc {
  std::uint32_t data, from, to;
  Cost cost;
};

class Program {
 public:
  explicit Program(const Network& network) : network_(network), problem_(glp_create_prob()) {
    glp_term_out(GLP_OFF);
    make_rows();
    make_columns();
  }
  ~Program() { glp_delete_prob(problem_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void maximise_count() {
    glp_set_obj_dir(problem_, GLP_MAX);
    for (std::size_t k = 0; k < arcs_.size(); ++k)
      glp_set_obj_coef(problem_, column(k), arcs_[k].from == arcs_[k].data ? 1 : 0);
  }
  void minimise_cost(std::int64_t count) {
    glp_set_obj_dir(problem_, GLP_MIN);
    for (std::size_t k = 0; k < arcs_.size(); ++k)
      glp_set_obj_coef(problem_, column(k), static_cast<double>(arcs_[k].cost));
    glp_set_row_bnds(problem_, count_row_, GLP_FX, static_cast<double>(count), static_cast<double>(count));
  }
  // The linear relaxation. False: it has no answer.
  bool relax() {
    glp_smcp how;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.meth = GLP_DUALP;
    return glp_simplex(problem_, &how) == 0 && glp_get_status(problem_) == GLP_OPT;
  }
  double relaxed() const { return glp_get_obj_val(problem_); }
  // Fixes what no answer of less than `cost` can use, and asks for such an answer.
  void seek_below(Cost cost) {
    const double gap = static_cast<double>(cost) - 1 - relaxed() + kRounding * static_cast<double>(cost);
    std::vector<int> used{0};
    std::vector<double> costs{0};
    for (std::size_t k = 0; k < arcs_.size(); ++k) {
      if (glp_get_col_stat(problem_, column(k)) == GLP_NL && glp_get_col_dual(problem_, column(k)) > gap) {
        glp_set_col_bnds(problem_, column(k), GLP_FX, 0, 0);
      } else if (arcs_[k].cost != 0) {
        used.push_back(column(k));
        costs.push_back(static_cast<double>(arcs_[k].cost));
      }
    }
    const int row = glp_add_rows(problem_, 1);
    glp_set_row_bnds(problem_, row, GLP_UP, 0, static_cast<double>(cost) - 0.5);
    glp_set_mat_row(problem_, row, static_cast<int>(used.size()) - 1, used.data(), costs.data());
  }
  enum class Outcome { kOptimal, kNothing, kOutOfTime };
  Outcome search(int seconds) {
    glp_iocp how;
    glp_init_iocp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.presolve = GLP_ON;
    how.gmi_cuts = how.mir_cuts = GLP_ON;
    how.br_tech = GLP_BR_DTH;
    how.tm_lim = seconds * 1000;
    const int code = glp_intopt(problem_, &how);
    if (code == GLP_ENOPFS || code == GLP_ENODFS) return Outcome::kNothing;
    if (code != 0) return Outcome::kOutOfTime;
    const int status = glp_mip_status(problem_);
    return status == GLP_OPT ? Outcome::kOptimal : Outcome::kNothing;
  }
  std::int64_t found() const { return std::llround(glp_mip_obj_val(problem_)); }
  Solution solution() const;

 private:
  static int column(std::size_t arc) { return static_cast<int>(arc) + 1; }
  // Rows: [1..n] capacity of the nodes; then conservation by data node and relay; then the count.
  int conserved(std::uint32_t data, std::uint32_t relay) const {
    return static_cast<int>((data + 1) * network_.size() + relay + 1);
  }
  void make_rows() {
    const int n = static_cast<int>(network_.size()), data = static_cast<int>(network_.data_nodes.size());
    glp_add_rows(problem_, n * (data + 1) + 1);
    for (int i = 0; i < n; ++i) glp_set_row_bnds(problem_, i + 1, GLP_UP, 0, network_.capacity[i]);
    for (int row = n + 1; row <= n * (data + 1); ++row) glp_set_row_bnds(problem_, row, GLP_FX, 0, 0);
    count_row_ = n * (data + 1) + 1;
    glp_set_row_bnds(problem_, count_row_, GLP_FR, 0, 0);
  }
  void add(std::uint32_t index, std::uint32_t from, const Link& link) {
    const std::uint32_t data = network_.data_nodes[index];
    const bool leaves = from == data, returns = link.to == data;
    const int at = glp_add_cols(problem_, 1);
    int rows[4] = {0}, count = 0;
    double values[4] = {0};
    const auto put = [&](int row, double value) {
      rows[++count] = row;
      values[count] = value;
    };
    put(static_cast<int>(from) + 1, 1);
    if (leaves) put(count_row_, 1);
    if (!leaves) put(conserved(index, from), -1);
    if (!returns) put(conserved(index, link.to), 1);
    glp_set_mat_col(problem_, at, count, rows, values);
    glp_set_col_kind(problem_, at, GLP_IV);
    const int most = std::min(network_.capacity[from], network_.capacity[link.to]);
    glp_set_col_bnds(problem_, at, most > 0 ? GLP_DB : GLP_FX, 0, most);
    arcs_.push_back({data, from, link.to, link.cost});
  }
  void make_columns() {
    for (std::uint32_t index = 0; index < network_.data_nodes.size(); ++index) {
      const std::uint32_t data = network_.data_nodes[index];
      for (const Link& link : network_.links[data]) add(index, data, link);
      for (std::size_t s = 0; s < network_.stages.size(); ++s)
        for (const std::uint32_t relay : network_.stages[s])
          for (const Link& link : network_.links[relay])
            if (s + 1 < network_.stages.size() || link.to == data) add(index, relay, link);
    }
  }

  const Network& network_;
  glp_prob* problem_;
  int count_row_ = 0;
  std::vector<Arc> arcs_;
};

Solution Program::solution() const {
  Solution solution;
  std::vector<std::int64_t> units(arcs_.size());
  for (std::size_t k = 0; k < arcs_.size(); ++k) units[k] = std::llround(glp_mip_col_val(problem_, column(k)));
  // Each data node's flow is followed unit by unit.
  for (const std::uint32_t data : network_.data_nodes)
    for (;;) {
      std::vector<NodeId> path{NodeId(data)};
      do {
        std::size_t k = 0;
        const std::uint32_t at = path.back().value();
        while (k < arcs_.size() && (units[k] == 0 || arcs_[k].data != data || arcs_[k].from != at)) ++k;
        if (k == arcs_.size()) break;
        --units[k];
        solution.cost += arcs_[k].cost;
        path.push_back(NodeId(arcs_[k].to));
      } while (path.back().value() != data);
      if (path.size() == 1) break;
      solution.flows.push_back(std::move(path));
    }
  solution.count = static_cast<std::int64_t>(solution.flows.size());
  return solution;
}

Error out_of_time(const Network& network, int seconds, const Solution& best) {
  const Bound bound = interchangeable_bound(network);
  return Error{"no exact optimum for " + std::to_string(network.data_nodes.size()) + " data nodes within " +
               std::to_string(seconds) + " s; the router planned finds " + std::to_string(best.count) + " flows for " +
               std::to_string(best.cost) + ", and less than " + std::to_string(bound.cost) + " for " +
               std::to_string(bound.count) + " is impossible"};
}

}  // namespace

Result<Solution> solve_several(const Network& network, std::uint64_t seed, int seconds) {
  auto planned = PlannedRouter().solve(network, seed);
  if (!planned) return planned;
  const Bound bound = interchangeable_bound(network);
  std::int64_t count = planned->count;
  if (count < bound.count) {
    Program most(network);
    most.maximise_count();
    const auto outcome = most.search(seconds);
    if (outcome == Program::Outcome::kOutOfTime) return out_of_time(network, seconds, *planned);
    if (outcome == Program::Outcome::kOptimal) count = most.found();
  }
  if (count == 0) return planned;
  if (count == planned->count && planned->cost == bound.cost && count == bound.count) return planned;
  Program program(network);
  program.minimise_cost(count);
  const bool known = count == planned->count;
  if (!program.relax()) return out_of_time(network, seconds, *planned);
  if (known) {
    if (std::ceil(program.relaxed() * (1 - 1e-9) - kRounding) >= static_cast<double>(planned->cost)) return planned;
    program.seek_below(planned->cost);
  }
  switch (program.search(seconds)) {
    case Program::Outcome::kOptimal:
      return program.solution();
    case Program::Outcome::kNothing:
      if (known) return planned;
      [[fallthrough]];
    case Program::Outcome::kOutOfTime:
      break;
  }
  return out_of_time(network, seconds, *planned);
}

}  // namespace tributary::flow
