//! Where tensors live: from the run's device to libtorch's.

use std::sync::Once;

use az::SaturatingAs;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::{Error, Result};
use crate::runtime::Device;

/// The device of libtorch, after checking that it is there. On a GPU f32 is f32 from then on: TF32 is off.
///
/// We link the processor's half of libtorch. Its CUDA half is loaded at the first wish for a GPU, from where the dynamic
/// loader looks (`LD_LIBRARY_PATH`); so one binary serves machines with and without.
///
/// # Errors
/// No CUDA half, no driver, or fewer GPUs than asked for.
pub fn to_tch(device: Device) -> Result<tch::Device> {
    of_rank(device, 0)
}

/// The device of libtorch for the rank of number `local` on its machine, which takes the GPU `local` after the one that was
/// asked for. Where there are fewer GPUs than ranks, they share.
///
/// # Errors
/// As [`to_tch`].
pub fn of_rank(device: Device, local: usize) -> Result<tch::Device> {
    let Device::Cuda(number) = device else { return Ok(tch::Device::Cpu) };
    load_cuda();
    let count = tch::Cuda::device_count().saturating_as::<usize>();
    if let Some(number) = number_of_rank(number, local, count) {
        if allow_tf32(false) {
            return Err(Error::internal("libtorch multiplies f32 in TF32 whatever it is told"));
        }
        return Ok(tch::Device::Cuda(number));
    }
    if count == 0 {
        return Err(Error::usage(format!("device `cuda:{number}` was asked for, and libtorch sees no GPU"))
            .hint("put the `lib` folder of a CUDA libtorch 2.11 on LD_LIBRARY_PATH, or leave out `--device`"));
    }
    Err(Error::usage(format!("device `cuda:{number}` was asked for; there are {count}, counted from 0")))
}

/// Whether products of f32 on GPUs may be computed in TF32, with 10 bits behind the point, from now on in the whole process;
/// gives what holds. Searches rely on f32, so they may not, whatever the environment says
/// (`TORCH_ALLOW_TF32_CUBLAS_OVERRIDE`).
#[expect(unsafe_code, reason = "tch has no such function, and C++ has it")]
fn allow_tf32(allow: bool) -> bool {
    unsafe extern "C" {
        fn pairloom_allow_tf32(allow: bool) -> bool;
    }
    // SAFETY: this is its signature, and it sets a flag.
    unsafe { pairloom_allow_tf32(allow) }
}

/// The GPU of rank `local`, of `count`, when `number` was asked for.
fn number_of_rank(number: usize, local: usize, count: usize) -> Option<usize> {
    (number < count).then(|| (number + local) % count)
}

/// Lets libtorch use `threads` threads for what the calling thread asks of it. Sums come out the same to the bit only with
/// the same number.
pub fn use_threads(threads: usize) {
    tch::set_num_threads(threads.max(1).saturating_as::<i32>());
}

/// Loads the CUDA half of libtorch once, before libtorch is first asked about GPUs: it remembers the answer.
fn load_cuda() {
    static LOADED: Once = Once::new();
    #[expect(unsafe_code, reason = "loading a library runs its code")]
    LOADED.call_once(|| {
        // SAFETY: it is of the same libtorch as the half that is linked. It stays loaded, so what it registers stays valid.
        if let Ok(library) = unsafe { Library::open(Some("libtorch_cuda.so"), RTLD_NOW | RTLD_GLOBAL) } {
            let _ = library.into_raw();
        }
        // A failure (there is no such library) leaves libtorch without GPUs, which the caller reports.
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn ranks_of_a_machine_take_its_gpus_in_turn() {
        let of = |number, ranks, count| (0..ranks).map(|rank| number_of_rank(number, rank, count)).collect::<Vec<_>>();
        assert_eq!(of(0, 3, 4), [Some(0), Some(1), Some(2)]);
        assert_eq!(of(3, 3, 4), [Some(3), Some(0), Some(1)]);
        assert_eq!(of(0, 3, 1), [Some(0); 3]);
        assert_eq!(of(4, 1, 4), [None]);
        assert_eq!(of(0, 1, 0), [None]);
    }

    /// Run by the other test, in an environment that allows TF32, as a process of its own: the flag is the whole process's.
    #[test]
    #[ignore = "another test runs it"]
    fn child() {
        assert!(allow_tf32(true));
        assert!(!allow_tf32(false), "the environment wins");
        allow_tf32(true);
        let Ok(device) = to_tch(Device::Cuda(0)) else { return test_data::impossible("no GPU to multiply on") };
        // (1 + 2⁻¹²)² takes more than the 10 bits of TF32.
        let ones = tch::Tensor::full([64, 64], 1.0 + 2f64.powi(-12), (tch::Kind::Float, device));
        let product = f64::try_from(ones.matmul(&ones).get(0).get(0)).unwrap();
        assert!((product - 64.0 * (1.0 + 2f64.powi(-12)).powi(2)).abs() < 1e-4, "{product}");
    }

    #[test]
    fn f32_is_multiplied_as_f32_whatever_the_environment_allows() {
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args(["--ignored", "--exact", "model::device::tests::child", "--show-output"]);
        let output = program.env("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        print!("{said}");
    }

    #[test]
    fn a_gpu_that_is_not_there_is_a_usage_error_with_a_hint() {
        assert_eq!(to_tch(Device::Cpu).unwrap(), tch::Device::Cpu);
        assert_eq!(of_rank(Device::Cpu, 3).unwrap(), tch::Device::Cpu);
        let count = usize::try_from(tch::Cuda::device_count()).unwrap();
        let error = to_tch(Device::Cuda(count)).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with(&format!("device `cuda:{count}` was asked for")), "{error}");
    }
}
