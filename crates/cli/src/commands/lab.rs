//! `mutua lab`: the page on which algorithms are watched, stepped by hand, run and compared.

mod assets;
mod guard;
mod live;
mod server;

use std::{net::Ipv4Addr, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use clap::Args;
use tokio::net::TcpListener;

use live::Live;

use crate::{
    exit::{CONFLICT, Coded},
    local::Selection,
};

pub(crate) const HELP: &str = "\
The page is served on loopback only, to this machine's browsers. It keeps nothing: a link of the \
page contains what it shows. The token in the printed address opens Live, which shows the cluster \
of the selected node, and can revoke locks as its user may: a page without the token has no Live. \
End it with Ctrl-C.

Exit codes: 0 ended by a signal; 64 bad usage; 75 the port is in use; 78 bad configuration, or the \
node of the options is of another cluster.";

/// Open the lab: a page that plays the algorithms, lets you decide, simulates and compares.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Port on loopback; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,

    /// Print the address only, and open no browser.
    #[arg(long)]
    no_open: bool,

    #[command(flatten)]
    node: Selection,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(arguments))?;
    // A query that still runs is bounded, but nobody waits for its reply.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn serve(arguments: &Arguments) -> Result<()> {
    let target = match arguments.node.find() {
        // All but Live works without a node.
        Err(error) if !arguments.node.is_given() => Err(format!("{error:#}")),
        target => Ok(target?),
    };
    let live = Arc::new(Live::new(target)?);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await;
    let listener = listener.map_err(|error| {
        let port = arguments.port;
        let text = format!("cannot listen on 127.0.0.1:{port}: {error}; use another --port");
        anyhow::Error::from(Coded(CONFLICT, text))
    })?;
    let port = listener.local_addr().context("the socket has no address")?.port();
    let address = format!("http://127.0.0.1:{port}/#token={}", live.token());
    println!("{address}");
    if !arguments.no_open && !open(&address) {
        eprintln!("mutua: no browser could be started: open {address}");
    }
    let router = server::router(port, live);
    axum::serve(listener, router).with_graceful_shutdown(ended()).await.context("the server failed")
}

/// Waits for Ctrl-C or a request to terminate.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Opens an address in the user's browser; false if that is not possible.
fn open(address: &str) -> bool {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let start = || {
        std::process::Command::new("xdg-open")
            .arg(address)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
    };
    has_display && start().is_ok()
}
