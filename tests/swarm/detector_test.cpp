#include "swarm/detector.h"

#include <gtest/gtest.h>

namespace tributary::swarm {
namespace {

constexpr NodeId kPeer{7};

// Time passes in steps of 10 ms; a peer that lives answers each ping after `round_trip`.
struct Watched {
  PaceOptions pace;
  Detector detector{pace};
  Time now{};
  Time answer_at = kNever;
  int pings = 0;

  explicit Watched(std::vector<NodeId> peers = {kPeer}) { detector.watch(now, peers); }
  // The time of the first suspicion, if any.
  Time run(Duration span, bool alive, Duration round_trip = milliseconds(20)) {
    const auto end = now + span;
    Time suspected = kNever;
    for (; now < end; now += milliseconds(10)) {
      if (now >= answer_at) {
        answer_at = kNever;
        if (alive) {
          detector.heard(now, kPeer);
          detector.sample(now, kPeer, round_trip);
        }
      }
      const auto due = detector.due(now);
      for (const auto peer : due.pings) {
        EXPECT_EQ(peer, kPeer);
        ++pings;
        if (answer_at == kNever) answer_at = now + round_trip;
      }
      for (const auto peer : due.suspects)
        if (peer == kPeer && suspected == kNever) suspected = now;
    }
    return suspected;
  }
};

TEST(Detector, PeerThatAnswersIsNotSuspected) {
  for (const auto round_trip : {milliseconds(1), milliseconds(100), milliseconds(600)}) {
    Watched w;
    EXPECT_EQ(w.run(seconds(60), true, round_trip), kNever) << to_seconds(round_trip);
    EXPECT_GT(w.pings, 50);
  }
}

TEST(Detector, SilenceIsSuspectedWithinTheFloorAndAFewRoundTrips) {
  for (const auto round_trip : {milliseconds(10), milliseconds(50), milliseconds(200)}) {
    Watched w;
    w.run(seconds(20), true, round_trip);
    const auto died = w.now;
    const auto suspected = w.run(seconds(10), false);
    EXPECT_LE(suspected - died, w.pace.suspect_floor + 4 * round_trip + milliseconds(100)) << to_seconds(round_trip);
    EXPECT_GE(suspected - died, w.pace.suspect_floor - w.pace.ping - round_trip);
  }
}

TEST(Detector, SuspectsOnceAndForgivesWhenHeard) {
  Watched w;
  w.run(seconds(5), true);
  EXPECT_NE(w.run(seconds(5), false), kNever);
  EXPECT_TRUE(w.detector.suspected(kPeer));
  EXPECT_EQ(w.run(seconds(5), false), kNever) << "once";
  EXPECT_TRUE(w.detector.heard(w.now, kPeer)) << "that suspicion was false";
  EXPECT_FALSE(w.detector.suspected(kPeer));
  EXPECT_FALSE(w.detector.heard(w.now, kPeer));
}

TEST(Detector, SilenceOfWhomNobodyWaitsForIsNoMatter) {
  Watched w{std::vector<NodeId>{}};
  EXPECT_EQ(w.run(seconds(60), false), kNever);
  EXPECT_EQ(w.pings, 0);
  // And the deadline begins when the waiting does.
  w.detector.watch(w.now, {kPeer});
  EXPECT_TRUE(w.detector.due(w.now).suspects.empty());
}

TEST(Detector, LostConnectionIsSuspectedAtOnce) {
  Watched w;
  w.run(seconds(5), true);
  w.detector.lost(kPeer);
  EXPECT_TRUE(w.detector.suspected(kPeer));
}

TEST(Detector, OneLateAnswerAfterManyQuickOnesIsForgiven) {
  Watched w;
  w.run(seconds(20), true, milliseconds(20));
  // Jitter of ten round trips, well below the floor.
  EXPECT_EQ(w.run(milliseconds(300), true, milliseconds(200)), kNever);
}

TEST(Detector, WakesNoLaterThanItsNextDuty) {
  Watched w;
  w.run(seconds(2), true);
  const auto wake = w.detector.next_wake();
  EXPECT_LE(wake, w.now + w.pace.suspect_floor * 3);
  Detector idle{PaceOptions{}};
  EXPECT_EQ(idle.next_wake(), kNever);
}

TEST(PaceOptions, DefaultsAreInOrderAndDisorderIsNamed) {
  EXPECT_EQ(PaceOptions{}.check(), "");
  PaceOptions pace;
  pace.suspect_floor = milliseconds(150);
  EXPECT_NE(pace.check().find("suspect_floor"), std::string::npos);
  pace = {};
  pace.stuck_floor = milliseconds(100);
  pace.retry_first = milliseconds(10);
  EXPECT_NE(pace.check().find("stuck_floor"), std::string::npos) << "every fault at once";
  EXPECT_NE(pace.check().find("retry_first"), std::string::npos);
  pace = {};
  pace.ping = Duration::zero();
  EXPECT_NE(pace.check().find("ping"), std::string::npos);
}

}  // namespace
}  // namespace tributary::swarm
