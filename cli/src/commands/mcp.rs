//! `runlog mcp`: a server of the Model Context Protocol.

use std::{path::PathBuf, time::Duration};

use rmcp::{ServiceExt, service::ServerInitializeError};
use runlog::{
    Orchestrator,
    agents::{OrchestratorOptions, TokioRuntime},
};

use crate::{
    args::{Global, at_least},
    failure::{Exit, Failure, Result},
    mcp::{AGENTS_MAX, AgentsFile, CommandAgent, Lines, Server, runtime},
    signals::signalled,
    store,
};

const AFTER_HELP: &str = "\
It speaks the Model Context Protocol on standard input and output, for a client that starts it as a server:
  {\"mcpServers\": {\"runlog\": {\"command\": \"runlog\", \"args\": [\"--store\", \"DIR\", \"mcp\", \"--agents\", \"agents.json\"]}}}

Its tools: list_available_agents, list_runs, get_run, list_run_messages, get_run_message, list_tool_calls, \
get_tool_call, list_flows; and with --agents spawn_agents and send_to_run.

FILE tells of agents that are programs, each of which speaks docs/agent-protocol.md:
  {\"project\": \"papers\", \"agents\": [
    {\"name\": \"researcher\", \"description\": \"Finds papers.\", \"tools\": [\"search\"], \"system_prompt\": \"…\",
     \"default_timeout_ms\": 600000, \"max_steps\": 50, \"command\": [\"./researcher.py\"]}]}
They are defined in the store, except for their commands. Without --agents nothing is spawned, and the store is only \
read, also while another process writes.

What the client spawns are the sub-agents of a run of an agent called mcp-client. Calls of spawn_agents at the same time \
have such a run each, in one session. They end with the client; one whose sub-agents are still at work then is paused \
with them, and each of these can be resumed by its resume_run_id.";

/// How long running agents have to record their state when the client disconnects.
const STOP_GRACE: Duration = Duration::from_millis(1_500);

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The agents that can be spawned
    #[arg(long, value_name = "FILE")]
    agents: Option<PathBuf>,
    /// The project whose agents are listed, where no file of agents names one
    #[arg(long, conflicts_with = "agents")]
    project: Option<String>,
    /// The most agents that work at one time
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = at_least::<u16>(1))]
    at_once: u16,
    /// First go on with the runs of these agents that a crash cut off
    #[arg(long, requires = "agents")]
    resume: bool,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<Exit> {
    let tokio = runtime()?;
    let served = tokio.block_on(serve(global, args));
    // Otherwise dropping the runtime would wait for a pending read of standard input.
    tokio.shutdown_background();
    served
}

async fn serve(global: &Global, args: &Args) -> Result<Exit> {
    let Some(path) = &args.agents else {
        let store = store::open_read_only(global)?;
        return talk(Server::new(store.to_async(), args.project.clone(), None)).await;
    };
    let file = AgentsFile::read(path)?;
    let store = store::open_quietly(global)?;
    let runtime = TokioRuntime::current()
        .ok_or_else(|| Failure::other("there is no runtime to run agents on"))?;
    let options = OrchestratorOptions {
        concurrent_max: usize::from(args.at_once),
        live_max: AGENTS_MAX,
        // Clients kill a server that takes much longer than this to end.
        stop_grace: STOP_GRACE,
        ..OrchestratorOptions::default()
    };
    let orchestrator = Orchestrator::new(store.to_async(), runtime, options);
    for agent in file.agents {
        let command = agent.command();
        orchestrator.register(
            &agent.definition.name,
            CommandAgent::new(store.clone(), command),
        );
        store.to_async().agents().put(agent.definition).await?;
    }
    if args.resume {
        let orchestrator = orchestrator.clone();
        // Concurrently with the client's requests. The result of each run is recorded in the store.
        tokio::spawn(async move { orchestrator.resume_all().await.map(|_| ()) });
    }
    let server = Server::new(store.to_async(), file.project, Some(orchestrator));
    // A client ends the server by closing its input, and some send a signal soon after: running agents are paused in
    // both cases.
    let disconnected = server.disconnected();
    let signalled = async {
        signalled().await;
        // Before the server's task is dropped, which ends each pending call: a call that believed the client still
        // connected would treat itself as abandoned, and cancel the agents it spawned.
        disconnected.cancel();
    };
    let exit = tokio::select! {
        exit = talk(server.clone()) => exit,
        () = signalled => Ok(Exit::Ok),
    };
    disconnected.cancel();
    server.close().await?;
    store.close()?;
    exit
}

/// Serves the client until it disconnects.
async fn talk(server: Server) -> Result<Exit> {
    let failed = |error: String| Failure::other(format!("can't talk with the client: {error}"));
    let lines = Lines::new(
        tokio::io::stdin(),
        tokio::io::stdout(),
        server.disconnected(),
    );
    let service = match server.serve(lines).await {
        // A client that ends before it says anything has disconnected like any other.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(Exit::Ok),
        served => served.map_err(|error| failed(error.to_string()))?,
    };
    service
        .waiting()
        .await
        .map_err(|error| failed(error.to_string()))?;
    Ok(Exit::Ok)
}
