//! Run-time facts of a process: its build, threads, device, process group, cancellation, random bytes, tasks of other
//! processes, and time spent waiting for data.

mod build;
mod cancel;
mod device;
mod process_group;
mod random;
mod remote_tasks;
mod resources;
mod stalls;

pub use build::{BUILD, VERSION_AND_BUILD};
pub use cancel::CancelToken;
pub use device::Device;
pub use process_group::{MAX_RANKS, ProcessGroup, Rendezvous};
pub use random::{random_bytes, random_hex};
pub use remote_tasks::RemoteTasks;
pub use resources::Resources;
pub use stalls::Stalls;
