//! x
use pairloom::kernels::hubness::statistic::Statistic;
use pairloom::kernels::product::Lanes;
use pairloom::kernels::sample::Sample;
use pairloom::search::{Ask, Positives, Scoring, Search, Vectors};
fn data(n: usize, m: usize, width: usize, noise: f64) -> (Vec<f32>, Vec<f32>) {
    let mut s = 88172645463325252u64;
    let mut gauss = move || {
        let mut t = 0.0;
        for _ in 0..4 {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            t += (s >> 11) as f64 / (1u64 << 53) as f64;
        }
        (t - 2.0) * 3f64.sqrt()
    };
    let unit = |v: Vec<f64>| {
        let n = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.into_iter().map(move |x| (x / n) as f32)
    };
    let mut a: Vec<f32> = Vec::new();
    for _ in 0..n {
        a.extend(unit((0..width).map(|_| gauss()).collect()));
    }
    let mut b = Vec::new();
    for j in 0..m {
        let i = j * n / m;
        let sc = (width as f64).sqrt();
        b.extend(unit((0..width).map(|k| f64::from(a[i * width + k]) * sc + noise * gauss()).collect()));
    }
    (a, b)
}
fn cpu() -> f64 {
    let t = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = t.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0 / 2.0
}
struct Instant(f64);
impl Instant {
    fn now() -> Self {
        Self(cpu())
    }
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs_f64(cpu() - self.0)
    }
}
fn main() {
    let (n, m, w) = (5000, 25000, 1024);
    let (a, b) = data(n, m, w, 11.0);
    let c = Instant::now();
    let (rows, cols) = (Vectors::new("a", &a, w).unwrap(), Vectors::new("b", &b, w).unwrap());
    println!("vectors {:.3}", c.elapsed().as_secs_f64());
    let r: Vec<_> = (0..n).map(|i| i * 5..i * 5 + 5).collect();
    let q: Vec<_> = (0..m).map(|j| j / 5..j / 5 + 1).collect();
    let ai = Ask { k: 10, positives: Positives::Ranges(&r), ..Ask::default() };
    let ac = Ask { k: 10, positives: Positives::Ranges(&q), ..Ask::default() };
    for _ in 0..5 {
        let c = Instant::now();
        let s = Search::new(&rows, &cols, Scoring::Product, 2).unwrap();
        let f = s.find(&ai, &ac, &mut |_, _| Ok(())).unwrap();
        let t1 = c.elapsed().as_secs_f64();
        let c = Instant::now();
        s.find(&ai, &ac, &mut |_, _| Ok(())).unwrap();
        let t2 = c.elapsed().as_secs_f64();
        let c = Instant::now();
        s.find(&Ask::default(), &Ask::default(), &mut |_, _| Ok(())).unwrap();
        let t3 = c.elapsed().as_secs_f64();
        let r1 = f[0].ranks.iter().flatten().filter(|r| r.rank == 0).count() as f64 / n as f64;
        let r1c = f[1].ranks.iter().flatten().filter(|r| r.rank == 0).count() as f64 / m as f64;
        println!(
            "find {t1:.3} counts {:?} again {t2:.3} nothing {t3:.3} R@1 {r1:.3} {r1c:.3}",
            pairloom::search::exact::COUNT
        );
    }
    let st = [Statistic::LogSumExp { beta: 30.0 }];
    let s = Search::new(&rows, &cols, Scoring::Product, 2).unwrap();
    for _ in 0..3 {
        let c = Instant::now();
        s.find(&Ask { statistics: &st, ..Ask::default() }, &Ask { statistics: &st, ..Ask::default() }, &mut |_, _| {
            Ok(())
        })
        .unwrap();
        println!("lse {:.3}", c.elapsed().as_secs_f64());
    }
}
