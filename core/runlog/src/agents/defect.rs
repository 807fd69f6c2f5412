//! [`Defect`]: ways to break the orchestration on purpose, to show that the tests detect each of them. Nothing is
//! broken unless the `_broken-orchestrator` feature is on, and a test asks for it.

/// What an orchestrator does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    not(feature = "_broken-orchestrator"),
    expect(unreachable_pub, reason = "it is public with the feature")
)]
pub enum Defect {
    /// What a run records after its end gets into its context.
    WritesLate,
    /// The end of a tree leaves out the runs below its root.
    ForgetsSubAgents,
    /// The cancellation of a tree leaves out runs that pause at the same moment.
    LeavesPaused,
    /// Sub-agents are created in one batch, and their parent's record in the next.
    SplitsSpawn,
    /// A run that is resumed after a crash is started twice.
    StartsTwice,
    /// A run that is resumed after a crash may exceed the limit of steps over all resumes.
    LosesBudget,
    /// The results of a spawn are recorded twice.
    RecordsTwice,
    /// A message is acknowledged before it is durable.
    AcknowledgesEarly,
    /// An agent works without waiting for its turn.
    IgnoresTurns,
}

#[cfg(feature = "_broken-orchestrator")]
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
