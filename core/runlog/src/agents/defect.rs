//! [`Defect`]: ways to break the orchestration on purpose, so that the tests show that they would notice. Nothing is
//! broken unless the `broken-orchestrator` feature is on, and a test asks for it.

/// What an orchestrator does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(feature = "broken-orchestrator"),
    expect(unreachable_pub, reason = "it is public with the feature")
)]
pub enum Defect {
    /// What a run records after its end gets into its context.
    WritesLate,
    /// A tree that ends leaves out those below.
    ForgetsSubAgents,
    /// A cancelled tree leaves out who paused in the moment of the cancellation.
    LeavesPaused,
    /// Sub-agents are made in one batch, and their parent's record in the next.
    SplitsSpawn,
    /// A run that goes on after a crash is begun twice.
    StartsTwice,
    /// A run that goes on after a crash may take steps over the bound of all resumes.
    LosesBudget,
    /// The results of a spawn are recorded twice.
    RecordsTwice,
    /// A message is acknowledged before it is durable.
    AcknowledgesEarly,
    /// An agent works without waiting for its turn.
    IgnoresTurns,
}

#[cfg(feature = "broken-orchestrator")]
impl Defect {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::WritesLate,
        Self::ForgetsSubAgents,
        Self::LeavesPaused,
        Self::SplitsSpawn,
        Self::StartsTwice,
        Self::LosesBudget,
        Self::RecordsTwice,
        Self::AcknowledgesEarly,
        Self::IgnoresTurns,
    ];
}
