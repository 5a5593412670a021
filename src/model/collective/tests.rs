//! Tests of collective operations between ranks that are threads of this process.

use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::testing::{HOST, on_ranks, test_process_group};
use super::{CollectiveGroup, TcpStore};
use pairloom_base::runtime::{CancelToken, ProcessGroup};

fn values(tensor: &Tensor) -> Vec<f32> {
    Vec::<f32>::try_from(tensor.contiguous().view(-1)).unwrap()
}

/// Numbers of varied magnitude and sign, different on every rank.
fn noise(rank: usize, count: i64) -> Tensor {
    let numbers = Tensor::arange(count, (Kind::Double, Device::Cpu)) * 0.731 + f64::from(u8::try_from(rank).unwrap());
    ((&numbers * 12.9898).sin() * (numbers * 0.37).cos().exp() * 1e3).to_kind(Kind::Float)
}

#[test]
fn unequal_numbers_of_rows_are_gathered_in_the_order_of_ranks() {
    for shares in [vec![2, 2, 2], vec![3, 0, 1], vec![0, 0, 5], vec![0, 0, 0]] {
        let gathered = on_ranks(3, |group| {
            let n = shares[group.rank()];
            let first: i64 = shares[..group.rank()].iter().sum();
            let rows = Tensor::arange_start(first * 4, (first + n) * 4, (Kind::Float, Device::Cpu)).view([n, 4]);
            group.all_gather(&rows).unwrap()
        });
        let all: i64 = shares.iter().sum();
        for rows in gathered {
            assert_eq!(rows.size(), [all, 4]);
            let expected: Vec<f32> = (0..u8::try_from(all * 4).unwrap()).map(f32::from).collect();
            assert_eq!(values(&rows), expected);
        }
    }
}

#[test]
fn rows_of_different_widths_are_an_error_on_all_ranks() {
    let errors = on_ranks(2, |group| {
        let d = if group.rank() == 0 { 4 } else { 5 };
        group.all_gather(&Tensor::zeros([1, d], (Kind::Float, Device::Cpu))).unwrap_err().to_string()
    });
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].starts_with("rank 1 has rows of width 5"), "{}", errors[0]);
}

#[test]
fn sums_are_correct_and_bitwise_equal_on_all_ranks() {
    for ranks in [2, 3, 4] {
        // A few values, a tensor larger than a bucket, an empty one, and doubles among floats.
        let sizes = [3_i64, if ranks == 2 { 7 << 20 } else { 70_001 }, 0, 1000, 65_537];
        let tensors = |rank| -> Vec<Tensor> {
            let mut tensors: Vec<Tensor> = sizes.iter().map(|&size| noise(rank, size)).collect();
            tensors.insert(1, noise(rank, 50).to_kind(Kind::Double));
            tensors.push(noise(rank, 12).view([3, 4]));
            tensors
        };
        let sums = on_ranks(ranks, |group| {
            let own = tensors(group.rank());
            group.all_reduce_sum(&own).unwrap();
            own
        });
        for (i, first) in sums[0].iter().enumerate() {
            let mut expected = Tensor::zeros_like(first).to_kind(Kind::Double);
            let mut size = Tensor::zeros_like(&expected);
            for rank in 0..ranks {
                let own = tensors(rank)[i].to_kind(Kind::Double);
                size += own.abs();
                expected += own;
            }
            for other in &sums[1..] {
                assert!(other[i].equal(first), "tensor {i} of {ranks} ranks has other bits");
            }
            // The error of a float addition is at most half an ulp of its result, which is at most the sum of absolute
            // values.
            let wrong = ((first.to_kind(Kind::Double) - expected).abs() - size * 1e-6).gt(0.0).sum(Kind::Int64);
            assert_eq!(wrong.int64_value(&[]), 0, "tensor {i} of {ranks} ranks");
        }
    }
}

#[test]
fn messages_of_any_length_are_exchanged() {
    let got = on_ranks(3, |group| group.all_gather_bytes(&vec![7; group.rank() * 1000]).unwrap());
    for messages in got {
        assert_eq!(messages, [vec![], vec![7; 1000], vec![7; 2000]]);
    }
}

#[test]
fn a_group_of_one_needs_no_network() {
    let group = CollectiveGroup::join(&ProcessGroup::single(), Device::Cpu, &CancelToken::new()).unwrap();
    let rows = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]);
    assert!(group.all_gather(&rows).unwrap().equal(&rows));
    group.all_reduce_sum(std::slice::from_ref(&rows)).unwrap();
    assert_eq!(values(&rows), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!((group.rank(), group.world_size()), (0, 1));
}

#[test]
fn a_lost_rank_is_an_error_at_once() {
    #[expect(clippy::disallowed_methods, reason = "the test measures the time until the error")]
    let clock = std::time::Instant::now();
    let errors = on_ranks(2, |group| {
        group.all_gather_bytes(b"").unwrap();
        if group.rank() == 1 {
            return None;
        }
        let sum = group.all_reduce_sum(&[noise(0, 1000)]).unwrap_err();
        let rows = group.all_gather(&noise(0, 8).view([2, 4])).unwrap_err();
        Some((sum, rows))
    });
    let (sum, rows) = errors.into_iter().flatten().next().unwrap();
    assert!(sum.is_peer() && rows.is_peer());
    assert!(sum.to_string().starts_with("cannot sum over the ranks: "), "{sum}");
    assert!(clock.elapsed() < Duration::from_secs(5), "{:?}", clock.elapsed());
}

#[test]
fn a_silent_rank_counts_as_lost_after_the_timeout() {
    let store = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let join = |rank| {
        let place = test_process_group(&store, rank, 2, Duration::from_millis(700));
        CollectiveGroup::join(&place, Device::Cpu, &CancelToken::new()).unwrap()
    };
    let error = std::thread::scope(|scope| {
        let silent = scope.spawn(|| {
            let group = join(1);
            std::thread::sleep(Duration::from_secs(2));
            drop(group);
        });
        let error = join(0).all_gather_bytes(b"").unwrap_err();
        assert!(!silent.is_finished(), "the rank was silent, not lost: {error}");
        error
    });
    assert!(error.is_peer(), "{error}");
}

#[test]
fn a_rank_that_does_not_arrive_is_named_and_waiting_can_be_cancelled() {
    let store = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let join = |cancel: &CancelToken| {
        CollectiveGroup::join(&test_process_group(&store, 0, 3, Duration::from_millis(200)), Device::Cpu, cancel)
            .unwrap_err()
    };
    let error = join(&CancelToken::new());
    assert_eq!(error.to_string(), "cannot connect to the other ranks: no connection from rank 1, 2 after 0 s");
    let cancelled = CancelToken::new();
    cancelled.cancel();
    assert_eq!(join(&cancelled).category(), pairloom_base::error::ErrorCategory::Interrupted);
}

#[test]
fn a_store_returns_the_values_that_were_set() {
    let server = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let client = TcpStore::connect(HOST, server.port(), Duration::from_secs(10)).unwrap();
    assert_eq!(client.get("key").unwrap(), None);
    server.set("key", b"\0value").unwrap();
    server.set("empty", b"").unwrap();
    // The server processes the requests of one connection in order, but not those of different connections.
    let arrived = || {
        (0..100).find_map(|_| {
            client.get("empty").unwrap().or_else(|| {
                std::thread::sleep(Duration::from_millis(20));
                None
            })
        })
    };
    assert_eq!(arrived().unwrap(), b"");
    assert_eq!(client.get("key").unwrap().unwrap(), b"\0value");
    assert!(client.get("a\0b").is_err());
    drop(server);
    assert!(client.get("key").unwrap_err().is_peer());
}

#[test]
fn a_store_at_the_loopback_address_listens_there_only() {
    let server = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let listening = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let six = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    let port = format!(":{:04X} ", server.port());
    let at: Vec<&str> = listening
        .lines()
        .chain(six.lines())
        .filter_map(|line| line.split_whitespace().nth(1).filter(|at| format!("{at} ").ends_with(&port)))
        .collect();
    assert!(!at.is_empty() && at.iter().all(|at| at.starts_with("0100007F:")), "{at:?}");
}

/// A process of another user that knows the port of the store, but not the token.
#[test]
fn a_process_without_the_token_cannot_join() {
    let store = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let join = |rank: usize| {
        let mut group = test_process_group(&store, rank, 2, Duration::from_secs(3));
        if rank == 1 {
            group.rendezvous.as_mut().unwrap().token = Some("a guess".to_owned());
        }
        CollectiveGroup::join(&group, Device::Cpu, &CancelToken::new()).map(drop).unwrap_err()
    };
    let errors = std::thread::scope(|scope| {
        let threads = [0, 1].map(|rank| scope.spawn(move || join(rank)));
        threads.map(|thread| thread.join().unwrap().to_string())
    });
    assert!(errors.iter().any(|error| error.contains("without the token of the ranks")), "{errors:?}");
}

/// 192.0.2.1 is reserved for documentation, so no machine has it.
#[test]
fn an_address_of_another_machine_is_refused_unless_ranks_have_a_token() {
    let error = TcpStore::serve("192.0.2.1", 0, Duration::from_secs(10), false).unwrap_err();
    assert!(error.to_string().contains("cannot listen at `192.0.2.1:0`"), "{error}");
    assert!(error.hint_text().unwrap().contains("PAIRLOOM_RANK_TOKEN"));
    let store = TcpStore::serve("192.0.2.1", 0, Duration::from_secs(10), true).unwrap();
    TcpStore::connect(HOST, store.port(), Duration::from_secs(10)).unwrap().set("a", b"b").unwrap();
}
