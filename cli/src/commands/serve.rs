//! `runlog serve`: the store over HTTP, for the viewer and for programs.

use std::{
    fs,
    io::Write,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    thread::available_parallelism,
};

use tokio::net::TcpListener;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    output::{Out, note, to_stderr},
    serve::{Served, Server, Tokens, given, random},
    signals::signalled,
    store,
};
use runlog::{
    Orchestrator,
    agents::{OrchestratorOptions, TokioRuntime},
};

const AFTER_HELP: &str = "\
It answers on this machine alone unless --listen says otherwise; http://ADDRESS/openapi.json describes what. Without a \
token everybody on the machine who can connect reads. With one, requests need `Authorization: Bearer TOKEN`; anywhere \
but on a loopback address one is required, and a proxy that encrypts should stand before it.

Tokens are read from files, or from the environment: RUNLOG_READ_TOKEN, RUNLOG_WRITE_TOKEN. The one for writing reads \
too. They have at least 16 characters; `openssl rand -hex 32` makes one.

It reads beside the process that writes the store, and follows it. With --write, or a token for writing, it is the \
writer itself, and no other process can be; a store that isn't there is made then.

It prints its address once it can be connected to, with --json as {\"url\"}, and the \
token that it made as \"write_token\", and ends on Ctrl-C and SIGTERM, or with \
an error if the folder of the store is removed, renamed or replaced.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The folder of the store, instead of --store
    #[arg(value_name = "STORE")]
    folder: Option<PathBuf>,
    /// Where to listen; port 0 is any that is free
    #[arg(long, default_value = "127.0.0.1:7710", value_name = "ADDRESS:PORT", value_parser = address)]
    listen: SocketAddr,
    /// Let requests write too; makes a token for it where none is given, and prints it on stderr once it listens
    #[arg(long)]
    write: bool,
    /// The file with the token for reading
    #[arg(long, value_name = "FILE")]
    read_token_file: Option<PathBuf>,
    /// The file with the token for writing
    #[arg(long, value_name = "FILE")]
    write_token_file: Option<PathBuf>,
    /// A name by which the server may be reached, besides addresses and localhost; can be given again
    #[arg(long = "allow-host", value_name = "NAME", value_parser = host)]
    hosts: Vec<String>,
    /// Open the viewer in the browser
    #[arg(long)]
    open: bool,
}

/// An address and a port; names aren't looked up.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "it should be an address in numbers and a port, such as 127.0.0.1:7710 or [::1]:7710"
            .to_owned()
    })
}

/// A name alone: requests are compared with it whatever their port.
fn host(text: &str) -> std::result::Result<String, String> {
    let is_name = |text: &str| {
        let of_name = |char: char| char.is_alphanumeric() || matches!(char, '.' | '-' | '_');
        !text.is_empty() && text.chars().all(of_name)
    };
    is_name(text).then(|| text.to_owned()).ok_or_else(|| {
        "it should be a name alone, such as logs.example, without a scheme, a port or a path"
            .to_owned()
    })
}

pub(crate) fn run(global: &Global, args: Args, out: &mut Out) -> Result<Exit> {
    let mut global = global.clone();
    if let Some(folder) = &args.folder {
        global.store.clone_from(folder);
    }
    let read = given(args.read_token_file.as_deref(), "RUNLOG_READ_TOKEN")?;
    let mut write = given(args.write_token_file.as_deref(), "RUNLOG_WRITE_TOKEN")?;
    if read.is_some() && read == write {
        return Err(Failure::usage(
            "the tokens for reading and for writing are the same; give two different ones",
        ));
    }
    let is_made = args.write && write.is_none();
    if is_made {
        write = Some(random()?);
    }
    let is_near = args.listen.ip().to_canonical().is_loopback();
    if !is_near && (is_made || (read.is_none() && write.is_none())) {
        return Err(Failure::usage(format!(
            "{} can be reached by other machines, so a token is needed: set RUNLOG_READ_TOKEN or RUNLOG_WRITE_TOKEN, or name a file with --read-token-file or --write-token-file",
            args.listen
        )));
    }
    let made = write.clone().filter(|_| is_made);
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // All threads but one may wait for the disk.
        .worker_threads(available_parallelism().map_or(4, |own| own.get().max(4)))
        // The most requests that read at one time; others wait.
        .max_blocking_threads(32)
        .build()
        .map_err(|error| Failure::io(&error, "can't start"))?;
    let store = if write.is_some() {
        store::open_or_create(&global)?
    } else {
        store::open_read_only(&global)?
    };
    let served = Served {
        store: store.to_async(),
        folder: global.store.clone(),
        tokens: Tokens::new(read, write),
        hosts: args.hosts.clone(),
    };
    let exit = tokio.block_on(serve(&global, &args, served, made, out));
    // Pending reads of disconnected clients aren't waited for.
    tokio.shutdown_background();
    // Why the server ended matters more than what came of it.
    let closed = store.close();
    let exit = exit?;
    closed?;
    Ok(exit)
}

/// Serves until a signal ends it. `made` is a token for writing that nobody knows yet.
async fn serve(
    global: &Global,
    args: &Args,
    served: Served,
    made: Option<String>,
    out: &mut Out,
) -> Result<Exit> {
    let cant_listen = |error| {
        let what = format!(
            "can't listen at {} (`--listen` chooses another address)",
            args.listen
        );
        Failure::io(&error, what)
    };
    let listener = TcpListener::bind(args.listen).await.map_err(cant_listen)?;
    let address = listener.local_addr().map_err(cant_listen)?;
    // Of a store that is open for writing, it takes what other processes ask for: commands for flows, and ends of runs.
    let _orchestrator = TokioRuntime::current().map(|runtime| {
        Orchestrator::new(
            served.store.clone(),
            runtime,
            OrchestratorOptions::default(),
        )
    });
    // From here on a signal shuts it down in order.
    let ended = signalled();
    let is_writer = !served.store.backend().is_read_only();
    let server = Server::new(listener, address.port(), served);
    let url = format!("http://{}/", near(address));
    // Only now: a token of a server that never listened would open nothing. Before the address, so that who reads that
    // finds the token said.
    if let Some(token) = made.as_ref().filter(|_| !out.is_json()) {
        to_stderr(&format!("the token for writing: {token}"));
    }
    if is_writer {
        note(
            global.json,
            "requests with the token for writing are taken: this is the store's one writer, and other processes can only read it \
             meanwhile",
        );
    }
    if !address.ip().to_canonical().is_loopback() {
        note(
            global.json,
            "tokens and events travel unencrypted; let a proxy that encrypts stand before it",
        );
    }
    if out.is_json() {
        let mut listening = serde_json::json!({"url": url});
        if let Some(token) = made {
            listening["write_token"] = token.into();
        }
        out.value(&listening)?;
    } else {
        out.line(&url)?;
    }
    out.flush()?;
    if args.open {
        open(global, &url, server.tokens())?;
    }
    match server.run(ended).await {
        Ok(()) => Ok(Exit::Ok),
        Err(gone) => Err(Failure::other(gone)),
    }
}

/// The address by which this machine reaches it.
fn near(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Opens the viewer in the browser. If a token is needed, through a private file that redirects there, because every
/// user of the machine can see the arguments of a process.
fn open(global: &Global, url: &str, tokens: &Tokens) -> Result<()> {
    let opened = if tokens.are_needed() {
        let link = format!("{url}open?code={}", tokens.new_link()?);
        note(global.json, format!("opens once, and soon: {link}"));
        let page = format!(
            "<!doctype html><meta charset=utf-8><title>Runlog</title><meta http-equiv=refresh content=\"0;url={link}\">\n"
        );
        let mut file = tempfile::Builder::new()
            .prefix("runlog-")
            .suffix(".html")
            .tempfile()
            .map_err(|error| Failure::io(&error, "can't make a page for the browser"))?;
        file.write_all(page.as_bytes())
            .map_err(|error| Failure::io(&error, "can't write a page for the browser"))?;
        let path = file.into_temp_path();
        let opened = open::that_detached(&path);
        // The browser reads the file some time later, so it is kept for a minute.
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_secs(60));
            let _ = fs::remove_file(&path);
        });
        opened
    } else {
        open::that_detached(url)
    };
    if opened.is_err() {
        note(
            global.json,
            "no browser could be started here; open that address in one",
        );
    }
    Ok(())
}
