//! [`Executor`]: the code that does an agent's work.

use std::future::Future;

use std::sync::Arc;

use super::{
    AgentEnd, AgentError, Execution, MaybeSend, MaybeSync, RunContext,
    active_run::ActiveRun,
    inner::{AgentWork, Inner},
};

/// Does the work of agents: calls the model and the tools, and records what happens.
///
/// It reads what to do from [`RunContext::messages`], which works the same for a new run and for one that is resumed
/// after a pause or a crash. When it is cancelled, [`RunContext::cancelled`] is ready; an executor that doesn't stop
/// within the grace period is dropped. An error fails the run, and so does a panic (in WebAssembly a panic ends the module).
///
/// ```
/// use runlog::{
///     NewMessage,
///     agents::{AgentEnd, Execution, Executor, RunContext},
/// };
///
/// struct Echo;
///
/// impl Executor for Echo {
///     fn execute(&self, run: RunContext) -> Execution {
///         Box::pin(async move {
///             run.next_step().await?;
///             let answer = format!("You said: {}", run.task());
///             run.record_message(NewMessage::assistant(&answer)).await?;
///             Ok(AgentEnd::completed(answer))
///         })
///     }
/// }
/// ```
pub trait Executor: MaybeSend + MaybeSync + 'static {
    /// Begins the work of one run.
    fn execute(&self, run: RunContext) -> Execution;
}

/// An executor of an async function. What it returns is the final text of the run, or `()`, or an [`AgentEnd`].
///
/// ```
/// use runlog::{
///     NewMessage,
///     agents::{RunContext, executor_fn},
/// };
///
/// let echo = executor_fn(|run: RunContext| async move {
///     run.record_message(NewMessage::assistant("Done.")).await?;
///     Ok::<_, runlog::Error>("Done.")
/// });
/// # let _: &dyn runlog::agents::Executor = &echo;
/// ```
pub fn executor_fn<F, Work, End, Error>(work: F) -> impl Executor
where
    F: Fn(RunContext) -> Work + MaybeSend + MaybeSync + 'static,
    Work: Future<Output = Result<End, Error>> + MaybeSend + 'static,
    End: Into<AgentEnd>,
    Error: Into<AgentError>,
{
    Function { work }
}

struct Function<F> {
    work: F,
}

impl<F, Work, End, Error> Executor for Function<F>
where
    F: Fn(RunContext) -> Work + MaybeSend + MaybeSync + 'static,
    Work: Future<Output = Result<End, Error>> + MaybeSend + 'static,
    End: Into<AgentEnd>,
    Error: Into<AgentError>,
{
    fn execute(&self, run: RunContext) -> Execution {
        let work = (self.work)(run);
        Box::pin(async move { work.await.map(Into::into).map_err(Into::into) })
    }
}

impl<E: Executor> AgentWork for E {
    fn work(&self, inner: Arc<Inner>, live: Arc<ActiveRun>) -> Execution {
        self.execute(RunContext::new(inner, live))
    }
}
