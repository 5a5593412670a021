//! Tests with the fake NCCL of `testing.rs`. Ranks are threads.

use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::library::{Gpu, NcclLibrary, data_type};
use super::testing::{FAKE_LIBRARY, FAKE_OLD_LIBRARY, GpuFault, calls, inject_fault, new_gpus};
use crate::collective::testing::{HOST, test_process_group};
use crate::collective::{CollectiveGroup, TcpStore};
use pairloom_base::error::{Error, ErrorCategory};
use pairloom_base::runtime::CancelToken;

const TRIAL_CALLS: [&str; 2] = ["gather 3 of 4", "sum 3 of 4"];

fn gpu(number: c_int) -> Gpu {
    Gpu { library: FAKE_LIBRARY, number, device: Device::Cpu }
}

/// Runs `work` on each rank with its GPU in `bring`, and returns their results.
fn on_ranks<T: Send>(
    bring: &[Result<Gpu, String>],
    timeout: Duration,
    cancel: &CancelToken,
    work: impl Fn(usize, CollectiveGroup) -> T + Sync,
) -> Vec<T> {
    let store = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let join = |rank| {
        let place = test_process_group(&store, rank, bring.len(), timeout);
        CollectiveGroup::join_with(&place, || bring[rank].clone(), cancel).unwrap()
    };
    std::thread::scope(|scope| {
        let (join, work) = (&join, &work);
        let threads: Vec<_> = (0..bring.len()).map(|rank| scope.spawn(move || work(rank, join(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs `work` on one rank per GPU, and returns their results. All ranks must use NCCL.
fn on_gpus<T: Send>(gpus: &[c_int], work: impl Fn(CollectiveGroup) -> T + Sync) -> Vec<T> {
    let bring: Vec<_> = gpus.iter().copied().map(gpu).map(Ok).collect();
    on_ranks(&bring, Duration::from_secs(20), &CancelToken::new(), |_, group| {
        assert_eq!(group.nccl_unavailable_reason(), None);
        work(group)
    })
}

/// Calls for a GPU after those of the trial.
fn after_trial(gpu: c_int, rank: usize, ranks: usize) -> Vec<String> {
    let calls = calls(gpu);
    assert_eq!(calls[..3], [&format!("init {rank} of {ranks}"), TRIAL_CALLS[0], TRIAL_CALLS[1]]);
    calls[3..].to_vec()
}

#[test]
fn rows_are_padded_gathered_and_cut() {
    for shares in [vec![2, 2, 2], vec![3, 0, 1], vec![0, 0, 5]] {
        let gpus = new_gpus(3);
        let gathered = on_gpus(&gpus, |group| {
            let n = shares[group.rank()];
            let first: i64 = shares[..group.rank()].iter().sum();
            let rows = Tensor::arange_start(first * 4, (first + n) * 4, (Kind::Float, Device::Cpu)).view([n, 4]);
            // Not contiguous.
            group.all_gather(&rows.tr().contiguous().tr()).unwrap()
        });
        let all: i64 = shares.iter().sum();
        for rows in gathered {
            assert!(rows.equal(&Tensor::arange(all * 4, (Kind::Float, Device::Cpu)).view([all, 4])));
        }
        let most = shares.iter().max().unwrap();
        for (rank, &gpu) in gpus.iter().enumerate() {
            assert_eq!(after_trial(gpu, rank, 3), [format!("gather {} of 7", most * 4), "destroy".to_owned()]);
        }
    }
}

#[test]
fn tensors_of_supported_types_are_exchanged_by_nccl_and_others_by_gloo() {
    let gpus = new_gpus(2);
    // As nccl.h numbers them.
    let types =
        [(Kind::Uint8, 1), (Kind::Int64, 4), (Kind::Half, 6), (Kind::Float, 7), (Kind::Double, 8), (Kind::BFloat16, 9)];
    on_gpus(&gpus, |group| {
        for kind in types.iter().map(|(kind, _)| *kind).chain([Kind::Int, Kind::Int8]) {
            let own = Tensor::full([1, 2], i64::from(group.rank() > 0), (kind, Device::Cpu));
            let all = group.all_gather(&own).unwrap();
            assert_eq!(all.kind(), kind);
            assert_eq!(Vec::<i64>::try_from(all.view(-1).to_kind(Kind::Int64)).unwrap(), [0, 0, 1, 1]);
        }
    });
    let expected: Vec<_> = types.iter().map(|(_, number)| format!("gather 2 of {number}")).collect();
    let got = after_trial(gpus[0], 0, 2);
    assert_eq!(got[..got.len() - 1], expected);
    assert_eq!((data_type(Kind::Int), data_type(Kind::Int8)), (None, None));
}

#[test]
fn sums_are_enqueued_together_in_buckets_and_written_back() {
    let gpus = new_gpus(3);
    let large = 7_i64 << 20;
    let sums = on_gpus(&gpus, |group| {
        let own = i64::try_from(group.rank()).unwrap();
        let float = (Kind::Float, Device::Cpu);
        let tensors = [
            Tensor::arange(6, float).view([2, 3]) + own,
            Tensor::zeros([0], float),
            Tensor::full([5], own * 10, float),
            Tensor::full([4], own + 1, (Kind::Double, Device::Cpu)),
            Tensor::full([large], own + 7, float),
            Tensor::full([2], own + 9, float),
        ];
        let view = tensors[0].view(-1);
        group.all_reduce_sum(&tensors).unwrap();
        (Vec::<f32>::try_from(view).unwrap(), tensors)
    });
    for (view, tensors) in sums {
        assert_eq!(view, [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);
        let all_are = |i: usize, value: f64| (&tensors[i] - value).abs().max().double_value(&[]) == 0.0;
        assert!(all_are(2, 30.0) && all_are(3, 6.0) && all_are(4, 24.0) && all_are(5, 30.0));
    }
    let expected = ["sum 11 of 7", "sum 4 of 8", &format!("sum {large} of 7"), "sum 2 of 7", "destroy"];
    for (rank, &gpu) in gpus.iter().enumerate() {
        assert_eq!(after_trial(gpu, rank, 3), expected);
    }
}

#[test]
fn sums_of_different_sizes_are_an_error_on_all_ranks() {
    let gpus = new_gpus(2);
    let errors = on_gpus(&gpus, |group| {
        let size = if group.rank() == 0 { 4 } else { 5 };
        let none = group.all_reduce_sum(&[Tensor::zeros([0], (Kind::Float, Device::Cpu))]);
        assert!(none.is_ok());
        group.all_reduce_sum(&[Tensor::zeros([size], (Kind::Float, Device::Cpu))]).unwrap_err().to_string()
    });
    assert_eq!(errors, ["rank 1 sums 5 values, rank 0 4"; 2]);
}

/// Reason why ranks with these GPUs do not use NCCL. Also checks that they work over gloo.
fn refusal(bring: &[Result<Gpu, String>]) -> String {
    let reasons = on_ranks(bring, Duration::from_secs(4), &CancelToken::new(), |rank, group| {
        let one = Tensor::full([1, 1], i64::try_from(rank).unwrap(), (Kind::Float, Device::Cpu));
        let gathered = Vec::<f32>::try_from(group.all_gather(&one).unwrap().view(-1)).unwrap();
        assert_eq!(gathered, [0.0, 1.0, 2.0]);
        group.all_reduce_sum(std::slice::from_ref(&one)).unwrap();
        assert_eq!(one.double_value(&[0, 0]), 3.0);
        group.nccl_unavailable_reason().unwrap().to_owned()
    });
    assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{reasons:?}");
    reasons[0].clone()
}

#[test]
fn all_ranks_use_nccl_or_none() {
    let numbers = new_gpus(3);
    let all = || numbers.iter().copied().map(gpu).map(Ok).collect::<Vec<_>>();
    let with = |rank: usize, other| {
        let mut bring = all();
        bring[rank] = other;
        bring
    };
    let none = Err("there is no `ncclAllGather` here".to_owned());
    assert_eq!(refusal(&with(2, none)), "rank 2: there is no `ncclAllGather` here");
    assert_eq!(refusal(&with(1, Gpu::of(Device::Cpu))), "rank 1: it computes on the CPU");
    let older = Gpu { library: FAKE_OLD_LIBRARY, ..gpu(numbers[0]) };
    assert_eq!(refusal(&with(0, Ok(older))), "rank 0 has NCCL 21005, and rank 1 has 22703");
    let shared = refusal(&with(2, Ok(gpu(numbers[0]))));
    let expected =
        format!("ranks 0 and 2 share the GPU at 0000:{:02x}:00.0, and NCCL requires one for each", numbers[0]);
    assert_eq!(shared, expected);
    // No rank has tried to connect so far.
    assert!(numbers.iter().all(|&gpu| calls(gpu).is_empty()));
}

#[test]
fn all_ranks_use_gloo_if_nccl_fails_at_the_start() {
    let numbers = new_gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    inject_fault(numbers[1], GpuFault::Init);
    let reason = refusal(&all);
    // The first reason counts. Rank 0 lost the connection to rank 1.
    assert_eq!(reason, "rank 0: ncclCommInitRank: remote error of the test (6)");
    let numbers = new_gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    inject_fault(numbers[2], GpuFault::Sums);
    let reason = refusal(&all);
    assert!(reason.starts_with("rank 2: a trial gave [1, 1, 1, 2, 2, 2, 3, 3, 3, "), "{reason}");
    for (rank, &gpu) in numbers.iter().enumerate() {
        assert_eq!(after_trial(gpu, rank, 3), ["abort"]);
    }
    let numbers = new_gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    inject_fault(numbers[0], GpuFault::Stream(1));
    let reason = refusal(&all);
    assert_eq!(reason, "rank 0: cudaStreamQuery: illegal address (700)");
}

/// Errors of rank 0 in its first operation after the trial, which must fail, and in the next one.
fn failure(gpus: &[c_int], timeout: Duration, cancel: &CancelToken, others: fn(&CollectiveGroup)) -> (Error, Error) {
    let bring: Vec<_> = gpus.iter().copied().map(gpu).map(Ok).collect();
    let errors = on_ranks(&bring, timeout, cancel, |rank, group| {
        if rank > 0 {
            others(&group);
            return None;
        }
        let rows = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        let nccl = group.nccl_for(&rows).unwrap();
        let first = nccl.all_reduce_sum(std::slice::from_ref(&rows)).unwrap_err();
        Some((first, nccl.all_reduce_sum(&[rows]).unwrap_err()))
    });
    errors.into_iter().flatten().next().unwrap()
}

#[test]
fn a_silent_rank_is_an_error_after_the_timeout() {
    let gpus = new_gpus(2);
    let silent = |_: &CollectiveGroup| std::thread::sleep(Duration::from_secs(2));
    let (error, next) = failure(&gpus, Duration::from_secs(1), &CancelToken::new(), silent);
    assert!(error.is_peer() && next.is_peer());
    assert_eq!(error.to_string(), "NCCL has waited 1 s for another rank");
    assert_eq!(next.to_string(), "the NCCL communicator is closed");
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
}

#[test]
fn waiting_ends_when_the_run_is_cancelled() {
    let gpus = new_gpus(2);
    static CANCEL: LazyLock<CancelToken> = LazyLock::new(CancelToken::new);
    let cancels = |_: &CollectiveGroup| {
        std::thread::sleep(Duration::from_millis(300));
        CANCEL.cancel();
    };
    let (error, next) = failure(&gpus, Duration::from_hours(1), &CANCEL, cancels);
    assert_eq!(error.category(), ErrorCategory::Interrupted);
    assert!(next.is_peer());
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
}

#[test]
fn waiting_ends_even_if_a_call_of_nccl_does_not_return() {
    let gpus = new_gpus(2);
    inject_fault(gpus[0], GpuFault::Stuck(2));
    let (error, _) = failure(&gpus, Duration::from_secs(1), &CancelToken::new(), |_| {});
    assert_eq!(error.to_string(), "NCCL has waited 1 s for another rank");
    // A communicator in use must not be aborted from another thread.
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7"]);
}

#[test]
fn errors_of_nccl_and_cuda_are_returned_and_end_the_communicator() {
    let silent = |_: &CollectiveGroup| std::thread::sleep(Duration::from_millis(500));
    for (trouble_is, expected) in [
        (GpuFault::Asynchronous(2), "a collective: remote error of the test (6)"),
        (GpuFault::Stream(2), "cudaStreamQuery: illegal address (700)"),
    ] {
        let gpus = new_gpus(2);
        inject_fault(gpus[0], trouble_is);
        let (error, next) = failure(&gpus, Duration::from_hours(1), &CancelToken::new(), silent);
        assert!(error.is_peer() && next.is_peer());
        assert_eq!(error.to_string(), expected);
        assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
    }
}

#[test]
fn a_lost_rank_is_detected_before_nccl_waits_for_it() {
    let gpus = new_gpus(2);
    let errors = Mutex::new(vec![]);
    on_gpus(&gpus, |group| {
        if group.rank() == 0 {
            let error = group.all_reduce_sum(&[Tensor::ones([4], (Kind::Float, Device::Cpu))]).unwrap_err();
            errors.lock().unwrap().push((error.is_peer(), error.to_string()));
        }
    });
    let (is_peer, text) = errors.into_inner().unwrap().remove(0);
    assert!(is_peer && text.starts_with("cannot sum over the ranks: cannot exchange sizes: "), "{text}");
    assert!(!after_trial(gpus[0], 0, 2).contains(&"sum 4 of 7".to_owned()));
}

#[test]
fn the_functions_are_found_in_the_real_libraries() {
    let library = match NcclLibrary::load() {
        Ok(library) => library,
        Err(why) => {
            test_data::impossible(why);
            return;
        }
    };
    assert!(library.version().unwrap() >= 20_000);
    assert_eq!(
        library.nccl("ncclX", 2).unwrap_err(),
        "ncclX: unhandled system error (run with NCCL_DEBUG=INFO for details) (2)"
    );
    assert_eq!(library.cuda("cudaX", 600).unwrap_err(), "cudaX: device not ready (600)");
}
