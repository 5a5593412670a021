//! Functions that libtorch differentiates by closures of this project.

#![expect(unsafe_code, reason = "nodes of libtorch's graph of gradients are C++")]

use std::ffi::{c_char, c_void};

use tch::Tensor;

use pairloom_base::error::{caught, panic_error};

/// Computes the gradients in the inputs of a function, `None` for those that are not needed, from the gradient in its
/// output and whether each is needed.
type Closure = Box<dyn FnOnce(&Tensor, &[bool]) -> Vec<Option<Tensor>> + Send>;

type Backward =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *const bool, *mut *mut c_void, usize, *mut c_char, usize) -> bool;
type Drop = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn pairloom_autograd_node(
        output: *const c_void,
        inputs: *const *const c_void,
        count: usize,
        closure: *mut c_void,
        backward: Backward,
        drop: Drop,
    ) -> *mut c_void;
}

/// Makes `output` a function of `inputs` that libtorch differentiates. `backward` computes the gradients in the inputs,
/// `None` for those that are not needed, from the gradient in the output and whether each is needed. It runs once at
/// most, so a graph is differentiated once. Nothing may change the inputs in between. A panic of `backward`, such as one of
/// `tch`, is an error of the call that differentiates the graph.
pub fn differentiable(
    output: &Tensor,
    inputs: &[&Tensor],
    backward: impl FnOnce(&Tensor, &[bool]) -> Vec<Option<Tensor>> + Send + 'static,
) -> Tensor {
    let pointers: Vec<*const c_void> = inputs.iter().map(|input| input.as_ptr().cast()).collect();
    let closure: Box<Closure> = Box::new(Box::new(backward));
    let closure = Box::into_raw(closure).cast();
    // SAFETY: the pointers are tensors of libtorch, which are valid for the call. The node owns the closure, and hands it
    // to one of the two functions once.
    let made = unsafe {
        pairloom_autograd_node(
            output.as_ptr().cast(),
            pointers.as_ptr(),
            pointers.len(),
            closure,
            call_closure,
            drop_closure,
        )
    };
    assert!(!made.is_null(), "libtorch makes a node for an output of {:?}", output.size());
    // SAFETY: the function returned a new tensor, which nothing else owns.
    unsafe { Tensor::from_ptr(made.cast()) }
}

/// Calls a closure and frees it. Returns false after a panic, whose text is in `message`, with a 0 at its end.
///
/// # Safety
/// `closure` is that of [`differentiable`], `d` a tensor, the arrays have `count` elements, and `message` has `capacity`.
unsafe extern "C" fn call_closure(
    closure: *mut c_void,
    d: *mut c_void,
    expected: *const bool,
    found: *mut *mut c_void,
    count: usize,
    message: *mut c_char,
    capacity: usize,
) -> bool {
    // SAFETY: the node gives the closure away.
    let closure = unsafe { Box::from_raw(closure.cast::<Closure>()) };
    // SAFETY: there are `count` values, which live during the call.
    let expected = unsafe { std::slice::from_raw_parts(expected, count) };
    // SAFETY: there are `count` places, which nothing else reads or writes meanwhile.
    let found = unsafe { std::slice::from_raw_parts_mut(found, count) };
    // SAFETY: there are `capacity` bytes, which nothing else reads or writes meanwhile.
    let message = unsafe { std::slice::from_raw_parts_mut(message.cast::<u8>(), capacity) };
    let computed = caught(|| {
        // SAFETY: the tensor lives during the call.
        let d = unsafe { Tensor::clone_from_ptr(d.cast()) };
        let gradients = tch::no_grad(|| closure(&d, expected));
        assert_eq!(gradients.len(), count, "a gradient or `None` for each input");
        gradients
    });
    match computed {
        Ok(gradients) => {
            for (found, gradient) in found.iter_mut().zip(gradients) {
                if let Some(gradient) = gradient {
                    // The node owns the tensor from here on.
                    *found = std::mem::ManuallyDrop::new(gradient).as_mut_ptr().cast();
                }
            }
            true
        }
        Err(panic) => {
            // A byte of 0 would end the text.
            let text = panic_error(&*panic).to_string().replace('\0', " ");
            let end = text.floor_char_boundary(capacity.saturating_sub(1));
            message[..end].copy_from_slice(&text.as_bytes()[..end]);
            message[end..].fill(0);
            false
        }
    }
}

/// Frees a closure that was not called.
///
/// # Safety
/// `closure` is that of [`differentiable`].
unsafe extern "C" fn drop_closure(closure: *mut c_void) {
    // SAFETY: the node gives the closure away.
    drop(unsafe { Box::from_raw(closure.cast::<Closure>()) });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tch::{Device, Kind};

    use super::*;

    /// Counts how often it is freed.
    struct Freed(Arc<AtomicUsize>);

    impl std::ops::Drop for Freed {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// y = x², with the gradient 2·x·d of its own, inside of a larger function: 3·x² + z, by hand.
    #[test]
    fn a_gradient_flows_through_a_closure_which_is_freed_once() {
        let frees = Arc::new(AtomicUsize::new(0));
        let square = |x: &Tensor, other: &Tensor, wanted_of_other: bool| {
            let (saved, freed) = (x.detach(), Freed(Arc::clone(&frees)));
            differentiable(&(x * x).detach(), &[x, other], move |d, expected| {
                let _ = &freed;
                assert_eq!(expected, [true, wanted_of_other]);
                vec![Some(d * &saved * 2.0), wanted_of_other.then(|| d.zeros_like())]
            })
        };
        let leaf = |value: f64| Tensor::from_slice(&[value]).set_requires_grad(true);
        let [x, z] = [leaf(5.0), leaf(7.0)];
        let fixed = Tensor::ones([1], (Kind::Double, Device::Cpu));
        let sum = square(&x, &fixed, false) * 3.0 + &z;
        assert_eq!((sum.double_value(&[]), frees.load(Ordering::Relaxed)), (82.0, 0));
        let found = Tensor::run_backward(&[sum], &[&x, &z], false, false);
        assert_eq!((found[0].double_value(&[0]), found[1].double_value(&[0])), (30.0, 1.0));
        assert_eq!(frees.load(Ordering::Relaxed), 1);
        // A gradient that nobody asks for, and an output that is dropped.
        let found = Tensor::run_backward(&[square(&x, &z, true)], &[&x, &z], false, false);
        assert_eq!((found[0].double_value(&[0]), found[1].double_value(&[0])), (10.0, 0.0));
        drop(square(&x, &z, true));
        assert_eq!(frees.load(Ordering::Relaxed), 3);
        let plain = tch::no_grad(|| square(&x, &fixed, false));
        assert!(!plain.requires_grad() && frees.load(Ordering::Relaxed) == 4);
    }

    #[test]
    fn a_panic_of_a_closure_is_an_error_of_the_backward_pass() {
        let x = Tensor::from_slice(&[5.0]).set_requires_grad(true);
        let y = differentiable(&x.detach(), &[&x], |_, _| panic!("{} regions, expected 3", 2));
        let error = Tensor::f_run_backward(&[y], &[&x], false, false).expect_err("a panic");
        assert!(error.to_string().contains("2 regions, expected 3"), "{error}");
    }
}
