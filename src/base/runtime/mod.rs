//! Run-time facts of a process: its build, threads, device, process group, cancellation, random bytes, tasks, errors and
//! addresses of other processes, files of its user, and time spent waiting for data.

mod build;
mod cancel;
mod cluster_url;
mod device;
mod error_message;
mod named_file;
mod process_group;
mod random;
mod remote_tasks;
mod resources;
mod stalls;

pub use build::{build, set_build, version_and_build};
pub use cancel::CancelToken;
pub use cluster_url::ClusterUrl;
pub use device::Device;
pub use error_message::ErrorMessage;
pub use named_file::NamedFile;
pub use process_group::{MAX_RANKS, ProcessGroup, Rendezvous};
pub use random::{random_bytes, random_hex};
pub use remote_tasks::RemoteTasks;
pub use resources::Resources;
pub use stalls::Stalls;
