//! Ranks as threads, with the functions of `stand_in.rs` in place of NCCL's.

use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::gpu::Gpu;
use super::library::{Library, data_type};
use super::stand_in::{LIBRARY, OLDER, Trouble, calls, gpus, trouble};
use crate::error::{Error, Kind as ErrorKind};
use crate::model::collective::tests::{HOST, place};
use crate::model::collective::{Group, KeyStore};
use crate::runtime::Cancel;

const TRIAL: [&str; 2] = ["gather 3 of 4", "sum 3 of 4"];

fn gpu(number: c_int) -> Gpu {
    Gpu { library: LIBRARY, number, device: Device::Cpu }
}

/// What each rank gives, with the GPU that `bring` says.
fn on_ranks<T: Send>(
    bring: &[Result<Gpu, String>],
    patience: Duration,
    cancel: &Cancel,
    work: impl Fn(usize, Group) -> T + Sync,
) -> Vec<T> {
    let store = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
    let join = |rank| {
        let place = place(&store, rank, bring.len(), patience);
        Group::join_with(&place, || bring[rank].clone(), cancel).unwrap()
    };
    std::thread::scope(|scope| {
        let (join, work) = (&join, &work);
        let threads: Vec<_> = (0..bring.len()).map(|rank| scope.spawn(move || work(rank, join(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// What each rank of as many as there are GPUs gives.
fn on_gpus<T: Send>(gpus: &[c_int], work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let bring: Vec<_> = gpus.iter().copied().map(gpu).map(Ok).collect();
    on_ranks(&bring, Duration::from_secs(20), &Cancel::new(), |_, group| {
        assert_eq!(group.why_not_nccl(), None);
        work(group)
    })
}

/// Calls of a GPU after the trial.
fn after_trial(gpu: c_int, rank: usize, of: usize) -> Vec<String> {
    let calls = calls(gpu);
    assert_eq!(calls[..3], [&format!("init {rank} of {of}"), TRIAL[0], TRIAL[1]]);
    calls[3..].to_vec()
}

#[test]
fn rows_are_padded_gathered_and_cut() {
    for shares in [vec![2, 2, 2], vec![3, 0, 1], vec![0, 0, 5]] {
        let gpus = gpus(3);
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
fn all_types_that_nccl_has_pass_through_it_and_others_do_not() {
    let gpus = gpus(2);
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
    let wanted: Vec<_> = types.iter().map(|(_, number)| format!("gather 2 of {number}")).collect();
    let got = after_trial(gpus[0], 0, 2);
    assert_eq!(got[..got.len() - 1], wanted);
    assert_eq!((data_type(Kind::Int), data_type(Kind::Int8)), (None, None));
}

#[test]
fn sums_are_queued_together_in_buckets_and_written_back() {
    let gpus = gpus(3);
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
        group.sum(&tensors).unwrap();
        (Vec::<f32>::try_from(view).unwrap(), tensors)
    });
    for (view, tensors) in sums {
        assert_eq!(view, [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);
        let all_are = |i: usize, value: f64| (&tensors[i] - value).abs().max().double_value(&[]) == 0.0;
        assert!(all_are(2, 30.0) && all_are(3, 6.0) && all_are(4, 24.0) && all_are(5, 30.0));
    }
    let wanted = ["sum 11 of 7", "sum 4 of 8", &format!("sum {large} of 7"), "sum 2 of 7", "destroy"];
    for (rank, &gpu) in gpus.iter().enumerate() {
        assert_eq!(after_trial(gpu, rank, 3), wanted);
    }
}

#[test]
fn sums_of_other_sizes_are_refused_on_all_ranks() {
    let gpus = gpus(2);
    let errors = on_gpus(&gpus, |group| {
        let size = if group.rank() == 0 { 4 } else { 5 };
        let none = group.sum(&[Tensor::zeros([0], (Kind::Float, Device::Cpu))]);
        assert!(none.is_ok());
        group.sum(&[Tensor::zeros([size], (Kind::Float, Device::Cpu))]).unwrap_err().to_string()
    });
    assert_eq!(errors, ["rank 1 adds up 5 values, rank 0 4"; 2]);
}

/// Why ranks that bring this do not use NCCL; they work over gloo all the same.
fn refusal(bring: &[Result<Gpu, String>]) -> String {
    let reasons = on_ranks(bring, Duration::from_secs(4), &Cancel::new(), |rank, group| {
        let one = Tensor::full([1, 1], i64::try_from(rank).unwrap(), (Kind::Float, Device::Cpu));
        let gathered = Vec::<f32>::try_from(group.all_gather(&one).unwrap().view(-1)).unwrap();
        assert_eq!(gathered, [0.0, 1.0, 2.0]);
        group.sum(std::slice::from_ref(&one)).unwrap();
        assert_eq!(one.double_value(&[0, 0]), 3.0);
        group.why_not_nccl().unwrap().to_owned()
    });
    assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{reasons:?}");
    reasons[0].clone()
}

#[test]
fn all_ranks_use_nccl_or_none() {
    let numbers = gpus(3);
    let all = || numbers.iter().copied().map(gpu).map(Ok).collect::<Vec<_>>();
    let with = |rank: usize, other| {
        let mut bring = all();
        bring[rank] = other;
        bring
    };
    let none = Err("there is no `ncclAllGather` here".to_owned());
    assert_eq!(refusal(&with(2, none)), "rank 2: there is no `ncclAllGather` here");
    assert_eq!(refusal(&with(1, Gpu::of(Device::Cpu))), "rank 1: it computes on the processor");
    let older = Gpu { library: OLDER, ..gpu(numbers[0]) };
    assert_eq!(refusal(&with(0, Ok(older))), "rank 0 has NCCL 21005, and rank 1 has 22703");
    let shared = refusal(&with(2, Ok(gpu(numbers[0]))));
    let wanted = format!("ranks 0 and 2 share the GPU at 0000:{:02x}:00.0, and NCCL wants one for each", numbers[0]);
    assert_eq!(shared, wanted);
    // Up to here nobody has been asked to connect.
    assert!(numbers.iter().all(|&gpu| calls(gpu).is_empty()));
}

#[test]
fn what_fails_at_the_start_leaves_all_with_gloo() {
    let numbers = gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    trouble(numbers[1], Trouble::Init);
    let reason = refusal(&all);
    // The first one to say something; the others saw that rank 1 was gone.
    assert_eq!(reason, "rank 0: ncclCommInitRank: remote error of the test (6)");
    let numbers = gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    trouble(numbers[2], Trouble::Sums);
    let reason = refusal(&all);
    assert!(reason.starts_with("rank 2: a trial gave [1, 1, 1, 2, 2, 2, 3, 3, 3, "), "{reason}");
    for (rank, &gpu) in numbers.iter().enumerate() {
        assert_eq!(after_trial(gpu, rank, 3), ["abort"]);
    }
    let numbers = gpus(3);
    let all: Vec<_> = numbers.iter().copied().map(gpu).map(Ok).collect();
    trouble(numbers[0], Trouble::Stream(1));
    let reason = refusal(&all);
    assert_eq!(reason, "rank 0: cudaStreamQuery: illegal address (700)");
}

/// The error of rank 0 when something goes wrong with its first collective after the trial, and of what it tries next.
fn failure(of: &[c_int], patience: Duration, cancel: &Cancel, others: fn(&Group)) -> (Error, Error) {
    let bring: Vec<_> = of.iter().copied().map(gpu).map(Ok).collect();
    let errors = on_ranks(&bring, patience, cancel, |rank, group| {
        if rank > 0 {
            others(&group);
            return None;
        }
        let rows = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        let nccl = group.nccl_for(&rows).unwrap();
        let first = nccl.sum(std::slice::from_ref(&rows)).unwrap_err();
        Some((first, nccl.sum(&[rows]).unwrap_err()))
    });
    errors.into_iter().flatten().next().unwrap()
}

#[test]
fn a_silent_rank_is_given_up_after_the_patience() {
    let gpus = gpus(2);
    let silent = |_: &Group| std::thread::sleep(Duration::from_secs(2));
    let (error, next) = failure(&gpus, Duration::from_secs(1), &Cancel::new(), silent);
    assert!(error.is_peer() && next.is_peer());
    assert_eq!(error.to_string(), "NCCL has waited 1 s for another rank");
    assert_eq!(next.to_string(), "NCCL is not connected any more");
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
}

#[test]
fn waiting_ends_when_the_run_is_cancelled() {
    let gpus = gpus(2);
    static CANCEL: LazyLock<Cancel> = LazyLock::new(Cancel::new);
    let cancels = |_: &Group| {
        std::thread::sleep(Duration::from_millis(300));
        CANCEL.cancel();
    };
    let (error, next) = failure(&gpus, Duration::from_hours(1), &CANCEL, cancels);
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(next.is_peer());
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
}

#[test]
fn waiting_ends_even_if_nccl_does_not_come_back() {
    let gpus = gpus(2);
    trouble(gpus[0], Trouble::Stuck(2));
    let (error, _) = failure(&gpus, Duration::from_secs(1), &Cancel::new(), |_| {});
    assert_eq!(error.to_string(), "NCCL has waited 1 s for another rank");
    // Nobody else may touch a communicator that is in use.
    assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7"]);
}

#[test]
fn errors_of_nccl_and_cuda_are_told_and_end_the_communicator() {
    let silent = |_: &Group| std::thread::sleep(Duration::from_millis(500));
    for (trouble_is, wanted) in [
        (Trouble::Asynchronous(2), "a collective: remote error of the test (6)"),
        (Trouble::Stream(2), "cudaStreamQuery: illegal address (700)"),
    ] {
        let gpus = gpus(2);
        trouble(gpus[0], trouble_is);
        let (error, next) = failure(&gpus, Duration::from_hours(1), &Cancel::new(), silent);
        assert!(error.is_peer() && next.is_peer());
        assert_eq!(error.to_string(), wanted);
        assert_eq!(after_trial(gpus[0], 0, 2), ["sum 4 of 7", "abort"]);
    }
}

#[test]
fn a_rank_that_is_gone_is_seen_before_nccl_waits_for_it() {
    let gpus = gpus(2);
    let errors = Mutex::new(vec![]);
    on_gpus(&gpus, |group| {
        if group.rank() == 0 {
            let error = group.sum(&[Tensor::ones([4], (Kind::Float, Device::Cpu))]).unwrap_err();
            errors.lock().unwrap().push((error.is_peer(), error.to_string()));
        }
    });
    let (is_peer, text) = errors.into_inner().unwrap().remove(0);
    assert!(is_peer && text.starts_with("cannot add up over the ranks: cannot exchange sizes: "), "{text}");
    assert!(!after_trial(gpus[0], 0, 2).contains(&"sum 4 of 7".to_owned()));
}

#[test]
fn the_functions_are_those_of_the_real_libraries() {
    let library = match Library::load() {
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
