//! `pairloom serve --flight`: a Flight SQL server over a store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::cluster::plan_runner;
use super::process_memory::limit_to_machine;
use super::sql::check_files_on_cluster;
use pairloom_base::error::{Error, Result};
use pairloom_cli::args::{CommonArgs, ServeArgs};
use pairloom_cli::console::Console;
use pairloom_cli::interrupt::stop_on_signal;
use pairloom_cli::open;
use pairloom_cli::run_choice::choose_run_for_queries;
use pairloom_flight::{AccessToken, FlightOptions, FlightServer, Sessions, TlsIdentity};
use pairloom_query::FILES;

/// Largest file with a token, a certificate or a key.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Environment variable with the token, if there is no file. Other users can see the arguments of a command.
const TOKEN_VARIABLE: &str = "PAIRLOOM_FLIGHT_TOKEN";

/// Time after which a query ends whose client takes no rows: its place is wanted by others.
const READER_TIME: Duration = Duration::from_mins(1);

/// Address of a server that listens, as JSON.
#[derive(Serialize)]
struct ListeningJson {
    event: &'static str,
    protocol: &'static str,
    uri: String,
    run: Option<String>,
}

/// Serves queries until Ctrl-C or SIGTERM.
///
/// # Errors
/// The store cannot be read; the address, the token or the certificate is wrong.
pub(super) fn serve(common: &CommonArgs, arguments: &ServeArgs, console: Console) -> Result<()> {
    let machine = limit_to_machine()?;
    let store = open::open_existing_store(common)?;
    let options = FlightOptions {
        address: arguments.flight,
        token: token(arguments)?,
        tls: tls(arguments)?,
        memory: arguments.memory.unwrap_or(machine / 4 * 3),
        query_memory: arguments.query_memory,
        query_time: Duration::from_secs(arguments.query_time.into()),
        reader_time: READER_TIME,
        queries: arguments.queries.into(),
    };
    options.check()?;
    if let Some(warning) = options.warning() {
        console.note(&format!("warning: {warning}"));
    }
    let of = arguments.of.clone();
    let choose = Box::new(move |log: &_| choose_run_for_queries(log, &of).map(Option::<&_>::cloned));
    let cluster = &arguments.cluster.cluster;
    check_files_on_cluster(cluster.as_ref(), &arguments.files)?;
    let runner = plan_runner(cluster.as_ref(), &store)?;
    let sessions = Sessions::new(store, choose, arguments.files.clone()).with_runner(runner);
    let sessions = Arc::new(sessions);
    // Mistakes in the choice of the run and in files are found now, not by the first client.
    let session = sessions.current()?;
    for file in &arguments.files {
        session.columns(FILES, &file.name)?;
    }
    drop(session);
    let scheme = if options.tls.is_some() { "grpc+tls" } else { "grpc" };
    let server = FlightServer::bind(options, Arc::clone(&sessions))?;
    let stopped = stop_on_signal()?;
    let uri = format!("{scheme}://{}", server.address());
    let run = sessions.run();
    if console.json {
        let run = run.map(|run| run.run);
        console.print_json(&ListeningJson { event: "listening", protocol: "flight-sql", uri, run })?;
    } else {
        let tables = match run {
            Some(run) => format!("the tables of the run {} of {}", run.run, run.pipeline),
            None => "a store without a finished run".to_owned(),
        };
        console.note(&format!("Flight SQL at {uri}: {tables}; Ctrl-C ends it"));
    }
    server.serve(stopped)
}

/// Token of the file or the environment.
fn token(arguments: &ServeArgs) -> Result<Option<AccessToken>> {
    match (&arguments.token_file, std::env::var(TOKEN_VARIABLE).ok()) {
        (Some(file), _) => {
            let text = String::from_utf8(read(file)?);
            let text = text.map_err(|_| Error::data(format!("`{}` is no text", file.display())))?;
            AccessToken::new(&text).map(Some).map_err(|error| error.context(format!("`{}`", file.display())))
        }
        (None, Some(text)) => AccessToken::new(&text).map(Some).map_err(|error| error.context(TOKEN_VARIABLE)),
        (None, None) => Ok(None),
    }
}

fn tls(arguments: &ServeArgs) -> Result<Option<TlsIdentity>> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else { return Ok(None) };
    Ok(Some(TlsIdentity { certificate: read(certificate)?, key: read(key)? }))
}

/// Content of a small file.
fn read(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let failed = |error: &std::io::Error| Error::io("read", path, error);
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(|error| failed(&error))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::data(format!("`{}` has more than {MAX_FILE_BYTES} bytes", path.display())));
    }
    Ok(content)
}
