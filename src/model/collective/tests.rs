//! Ranks as threads of this process, connected as processes are.

use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::{Group, KeyStore};
use crate::runtime::{Cancel, Meeting, Ranks};

pub(super) const HOST: &str = "127.0.0.1";

pub(super) fn place(store: &KeyStore, rank: usize, of: usize, patience: Duration) -> Ranks {
    let meeting = Meeting { host: HOST.to_owned(), port: store.port(), name: "test".to_owned(), patience };
    Ranks { rank, of, local: rank, meeting: Some(meeting) }
}

/// What each of `of` ranks gives.
pub(in crate::model) fn on_ranks<T: Send>(of: usize, work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let store = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
    let join = |rank| {
        let place = place(&store, rank, of, Duration::from_secs(10));
        Group::join(&place, Device::Cpu, &Cancel::new()).unwrap()
    };
    std::thread::scope(|scope| {
        let (join, work) = (&join, &work);
        let threads: Vec<_> = (0..of).map(|rank| scope.spawn(move || work(join(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn values(tensor: &Tensor) -> Vec<f32> {
    Vec::<f32>::try_from(tensor.contiguous().view(-1)).unwrap()
}

/// Numbers of many sizes and signs, others on every rank.
fn noise(rank: usize, count: i64) -> Tensor {
    let numbers = Tensor::arange(count, (Kind::Double, Device::Cpu)) * 0.731 + f64::from(u8::try_from(rank).unwrap());
    ((&numbers * 12.9898).sin() * (numbers * 0.37).cos().exp() * 1e3).to_kind(Kind::Float)
}

#[test]
fn rows_of_unequal_shares_come_in_the_order_of_ranks() {
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
            let wanted: Vec<f32> = (0..u8::try_from(all * 4).unwrap()).map(f32::from).collect();
            assert_eq!(values(&rows), wanted);
        }
    }
}

#[test]
fn rows_of_other_widths_are_refused_on_all_ranks() {
    let errors = on_ranks(2, |group| {
        let d = if group.rank() == 0 { 4 } else { 5 };
        group.all_gather(&Tensor::zeros([1, d], (Kind::Float, Device::Cpu))).unwrap_err().to_string()
    });
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].starts_with("rank 1 has rows of width 5"), "{}", errors[0]);
}

#[test]
fn sums_have_the_same_bits_on_all_ranks_and_are_the_sums() {
    for of in [2, 3, 4] {
        // Smaller than a message, one that fills a bucket by itself, none at all, and doubles among floats.
        let sizes = [3_i64, if of == 2 { 7 << 20 } else { 70_001 }, 0, 1000, 65_537];
        let tensors = |rank| -> Vec<Tensor> {
            let mut tensors: Vec<Tensor> = sizes.iter().map(|&size| noise(rank, size)).collect();
            tensors.insert(1, noise(rank, 50).to_kind(Kind::Double));
            tensors.push(noise(rank, 12).view([3, 4]));
            tensors
        };
        let sums = on_ranks(of, |group| {
            let own = tensors(group.rank());
            group.sum(&own).unwrap();
            own
        });
        for (i, first) in sums[0].iter().enumerate() {
            let mut wanted = Tensor::zeros_like(first).to_kind(Kind::Double);
            let mut size = Tensor::zeros_like(&wanted);
            for rank in 0..of {
                let own = tensors(rank)[i].to_kind(Kind::Double);
                size += own.abs();
                wanted += own;
            }
            for other in &sums[1..] {
                assert!(other[i].equal(first), "tensor {i} of {of} ranks has other bits");
            }
            // Each addition of floats is exact to half a unit of its result, which is at most the sum of absolute values.
            let wrong = ((first.to_kind(Kind::Double) - wanted).abs() - size * 1e-6).gt(0.0).sum(Kind::Int64);
            assert_eq!(wrong.int64_value(&[]), 0, "tensor {i} of {of} ranks");
        }
    }
}

#[test]
fn messages_of_any_length_are_exchanged() {
    let got = on_ranks(3, |group| group.exchange(&vec![7; group.rank() * 1000]).unwrap());
    for messages in got {
        assert_eq!(messages, [vec![], vec![7; 1000], vec![7; 2000]]);
    }
}

#[test]
fn one_alone_needs_no_network() {
    let group = Group::join(&Ranks::alone(), Device::Cpu, &Cancel::new()).unwrap();
    let rows = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3]);
    assert!(group.all_gather(&rows).unwrap().equal(&rows));
    group.sum(std::slice::from_ref(&rows)).unwrap();
    assert_eq!(values(&rows), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!((group.rank(), group.ranks()), (0, 1));
}

#[test]
fn a_rank_that_is_gone_is_an_error_at_once() {
    #[expect(clippy::disallowed_methods, reason = "the time until the error is what is tested")]
    let clock = std::time::Instant::now();
    let errors = on_ranks(2, |group| {
        group.exchange(b"").unwrap();
        if group.rank() == 1 {
            return None;
        }
        let sum = group.sum(&[noise(0, 1000)]).unwrap_err();
        let rows = group.all_gather(&noise(0, 8).view([2, 4])).unwrap_err();
        Some((sum, rows))
    });
    let (sum, rows) = errors.into_iter().flatten().next().unwrap();
    assert!(sum.is_peer() && rows.is_peer());
    assert!(sum.to_string().starts_with("cannot add up over the ranks: "), "{sum}");
    assert!(clock.elapsed() < Duration::from_secs(5), "{:?}", clock.elapsed());
}

#[test]
fn a_rank_that_is_silent_counts_as_gone() {
    let store = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
    let join = |rank| {
        let place = place(&store, rank, 2, Duration::from_millis(700));
        Group::join(&place, Device::Cpu, &Cancel::new()).unwrap()
    };
    let error = std::thread::scope(|scope| {
        let silent = scope.spawn(|| {
            let group = join(1);
            std::thread::sleep(Duration::from_secs(2));
            drop(group);
        });
        let error = join(0).exchange(b"").unwrap_err();
        assert!(!silent.is_finished(), "it was silent, not gone: {error}");
        error
    });
    assert!(error.is_peer(), "{error}");
}

#[test]
fn a_rank_that_never_comes_is_named_and_waiting_can_be_interrupted() {
    let store = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
    let join = |cancel: &Cancel| {
        Group::join(&place(&store, 0, 3, Duration::from_millis(200)), Device::Cpu, cancel).unwrap_err()
    };
    let error = join(&Cancel::new());
    assert_eq!(error.to_string(), "cannot connect to the other ranks: after 0 s there is no rank 1, 2");
    let cancelled = Cancel::new();
    cancelled.cancel();
    assert_eq!(join(&cancelled).kind(), crate::error::Kind::Interrupted);
}

#[test]
fn a_store_keeps_what_it_is_given() {
    let server = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
    let client = KeyStore::connect(HOST, server.port(), Duration::from_secs(10)).unwrap();
    assert_eq!(client.get("key").unwrap(), None);
    server.set("key", b"\0value").unwrap();
    server.set("empty", b"").unwrap();
    // The server takes what comes over one connection in order, and over two as it likes.
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
fn a_store_for_this_machine_listens_nowhere_else() {
    let server = KeyStore::serve(HOST, 0, Duration::from_secs(10)).unwrap();
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
