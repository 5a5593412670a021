//! Process that reads a table for another one. A file that needs too much memory, time or stack ends this process, and not
//! a run.
//!
//! A program that answers requests is named by [`set_program`]. Without it, as in tests, a thread reads.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use rlimit::Resource;

use super::reader::read_table;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::ErrorMessage;

/// First argument of a program that reads a table. It is no command of the command line.
pub const READ_TABLE: &str = "read-table";

/// Memory of a process.
const MEMORY: u64 = 4 << 30;
/// Seconds of a processor that a file may take, and bytes for which it may take one more.
const SECONDS: u64 = 60;
const BYTES_PER_SECOND: u64 = 1 << 20;

/// Most characters of a message.
const MESSAGE_CHARS: usize = 5_000;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Names the program whose processes read tables. The first call counts.
pub fn set_program(path: PathBuf) {
    PROGRAM.get_or_init(|| path);
}

/// Answers a request: writes a table to stdout, or an error to stderr. `arguments` are those after [`READ_TABLE`]: a path,
/// and places of columns.
pub fn answer(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    // Panics of the libraries are errors, which `read_table` returns.
    std::panic::set_hook(Box::new(|_| {}));
    let path = PathBuf::from(arguments.next().unwrap_or_default());
    let read = limit(&path).and_then(|()| {
        let places: Option<Vec<usize>> = arguments.map(|place| place.to_str()?.parse().ok()).collect();
        let places = places.ok_or_else(|| Error::internal("a place of a column is no number"))?;
        let output = std::io::stdout().as_fd().try_clone_to_owned();
        let output = output.map_err(|error| Error::internal(format!("stdout cannot be written: {error}")))?;
        read_table(&path, &places, File::from(output))
    });
    let Err(error) = read else { return ExitCode::SUCCESS };
    // It fits into a pipe, which the other process reads last.
    let mut start = Error::new(error.category(), error.to_string().chars().take(MESSAGE_CHARS).collect::<String>());
    if let Some(hint) = error.hint_text() {
        start = start.hint(hint);
    }
    // Nobody may read it any more.
    let _ = writeln!(std::io::stderr(), "{}", serde_json::to_string(&ErrorMessage::from(&start)).unwrap_or_default());
    ExitCode::from(error.category().exit_code())
}

/// Limits the memory and the time of this process.
fn limit(path: &Path) -> Result<()> {
    let bytes = path.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    let seconds = SECONDS + bytes / BYTES_PER_SECOND;
    let lower = |resource: Resource, limit: u64| {
        let (_, highest) = resource.get()?;
        // At the higher limit of time a process is killed, without a reason.
        resource.set(limit.min(highest), limit.saturating_add(1).min(highest))
    };
    // A core of each refused file would be as large as its memory.
    let set = Resource::CORE
        .set(0, 0)
        .and_then(|()| lower(Resource::DATA, MEMORY))
        .and_then(|()| lower(Resource::CPU, seconds));
    set.map_err(|error| Error::internal(format!("cannot limit the memory and time of a process: {error}")))
}

/// Table that a process or a thread reads.
pub(super) struct TableStream {
    path: PathBuf,
    stream: StreamReader<Box<dyn Read + Send>>,
    reader: Reader,
}

enum Reader {
    Process(Child),
    Thread(Option<JoinHandle<Result<()>>>),
}

impl TableStream {
    /// Starts to read the columns at `places`, or the schema alone if there are none.
    ///
    /// # Errors
    /// As of [`read_table`], as far as the schema.
    pub(super) fn open(path: &Path, places: &[usize]) -> Result<Self> {
        let failed = |error: std::io::Error| Error::stage(format!("cannot start a reader of tables: {error}"));
        let (mut reader, output): (Reader, Box<dyn Read + Send>) = match PROGRAM.get() {
            Some(program) => {
                let mut command = Command::new(program);
                command.arg(READ_TABLE).arg(path).args(places.iter().map(usize::to_string));
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().map_err(failed)?;
                let output = child.stdout.take();
                (Reader::Process(child), Box::new(output.ok_or_else(|| failed(ErrorKind::BrokenPipe.into()))?))
            }
            None => {
                let (output, input) = std::io::pipe().map_err(failed)?;
                let (path, places) = (path.to_owned(), places.to_vec());
                let thread = std::thread::Builder::new().name("table".to_owned());
                let thread = thread.spawn(move || read_table(&path, &places, input)).map_err(failed)?;
                (Reader::Thread(Some(thread)), Box::new(output))
            }
        };
        match StreamReader::try_new(output, None) {
            Ok(stream) => Ok(Self { path: path.to_owned(), stream, reader }),
            Err(error) => Err(reader.end(path).err().unwrap_or_else(|| of_file(path, error))),
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

impl Iterator for TableStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.stream.next() {
            Some(Ok(batch)) => Some(Ok(batch)),
            // The reader has ended, and says why.
            None => self.reader.end(&self.path).err().map(Err),
            Some(Err(error)) => {
                let is_cut =
                    matches!(&error, ArrowError::IoError(_, error) if error.kind() == ErrorKind::UnexpectedEof);
                let reason = if is_cut { self.reader.end(&self.path).err() } else { None };
                Some(Err(reason.unwrap_or_else(|| of_file(&self.path, error))))
            }
        }
    }
}

/// Error of a stream that cannot be read, such as one with text that is no UTF-8.
fn of_file(path: &Path, error: ArrowError) -> Error {
    Error::from(error).context(format!("`{}`", path.display()))
}

impl Reader {
    /// Waits for the end of a reader whose output has ended.
    fn end(&mut self, path: &Path) -> Result<()> {
        match self {
            Self::Process(child) => {
                let mut said = Vec::new();
                let read = child.stderr.take().map_or(Ok(0), |mut stderr| stderr.read_to_end(&mut said));
                let ended = read.and_then(|_| child.wait());
                let status = ended.map_err(|error| Error::stage(format!("cannot wait for a reader: {error}")))?;
                if status.success() { Ok(()) } else { Err(error_of(path, status, &String::from_utf8_lossy(&said))) }
            }
            Self::Thread(thread) => match thread.take().map(JoinHandle::join) {
                Some(Err(_)) => Err(Error::internal("a reader of tables panicked")),
                Some(Ok(read)) => read,
                None => Ok(()),
            },
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A thread ends when nobody reads what it writes.
        if let Self::Process(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Signals that end all processes of a terminal or a job: SIGHUP, SIGINT, SIGTERM.
const ENDED: [i32; 3] = [1, 2, 15];
/// Signal of a process that has used up its time.
const SIGXCPU: i32 = 24;

/// Error of a process that ended with `status`, and `said` something.
fn error_of(path: &Path, status: ExitStatus, said: &str) -> Error {
    if let Some(Ok(message)) = said.lines().last().map(serde_json::from_str::<ErrorMessage>) {
        return message.into();
    }
    let reason = match (status.signal(), said.lines().find(|line| !line.trim().is_empty())) {
        (Some(signal), _) if ENDED.contains(&signal) => return Error::interrupted(),
        (Some(SIGXCPU), _) => "it takes too much time".to_owned(),
        (_, Some(line)) => line.trim().to_owned(),
        (_, None) => format!("its reader ended with {status}"),
    };
    Error::data(format!("`{}` cannot be read: {reason}", path.display())).hint(format!(
        "the reader of a table may use {} GiB of memory, and {SECONDS} s and 1 s for each MiB of the file: write it in \
         smaller batches or row groups",
        MEMORY >> 30
    ))
}
