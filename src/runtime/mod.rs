//! Run-time facts of a process: its threads and device, the other processes it works with, whether it is cancelled, and
//! what it waits for.

mod cancel;
mod device;
mod ranks;
mod resources;
mod stalls;

pub use cancel::Cancel;
pub use device::Device;
pub use ranks::{Meeting, Ranks};
pub use resources::Resources;
pub use stalls::Stalls;
