//! tokio's timers under the load of runner_bench.c, whose rows it prints: runner_tokio WINDOWS newest|random THREADS. A
//! timer is a `Sleep` that was polled once, which registers it; dropping it cancels it. The runtime has one thread.
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, Barrier, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::time::{sleep_until, Sleep};

const OUTSTANDING: usize = 100000;
const PAIRS_PER_LOOK: u64 = 256;
const WINDOW: Duration = Duration::from_millis(5);
const WARM: Duration = Duration::from_millis(200);

extern "C" {
    /// The processor time of the process, in microseconds.
    fn clock() -> std::ffi::c_long;
}

struct Ignore;

impl Wake for Ignore {
    fn wake(self: Arc<Self>) {}
}

fn draw(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    random.wrapping_mul(2685821657736338717)
}

fn schedule(now: Instant, random: &mut u64, context: &mut Context) -> Pin<Box<Sleep>> {
    let delay = Duration::from_millis(10000 + (draw(random) >> 32) % 60000);
    let mut timer = Box::pin(sleep_until((now + delay).into()));
    let _ = timer.as_mut().poll(context);
    timer
}

/// How long the thread has waited for a processor.
fn waited_ns(schedstat: &File) -> u64 {
    let mut bytes = [0; 80];
    let length = schedstat.read_at(&mut bytes, 0).unwrap_or(0);
    let text = std::str::from_utf8(&bytes[..length]).unwrap_or("");
    text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn work(number: usize, threads: usize, windows: usize, is_random: bool, grid: &OnceLock<Instant>, start: &Barrier) -> String {
    let waker: Waker = Arc::new(Ignore).into();
    let mut context = Context::from_waker(&waker);
    let mut random = 88172645463325252 + number as u64;
    let schedstat = File::open("/proc/thread-self/schedstat").expect("schedstat");
    let mut timers: Vec<_> =
        (0..OUTSTANDING / threads).map(|_| schedule(Instant::now(), &mut random, &mut context)).collect();
    start.wait();
    start.wait();
    let grid = *grid.get().expect("the grid");
    let mut run = |now| {
        for _ in 0..PAIRS_PER_LOOK {
            let timer = schedule(now, &mut random, &mut context);
            if is_random {
                let which = (draw(&mut random) >> 32) as usize % timers.len();
                timers[which] = timer;
            }
        }
    };
    let mut now = Instant::now();
    while now < grid {
        run(now);
        now = Instant::now();
    }
    let mut rows = String::new();
    loop {
        let which = ((now - grid).as_nanos() / WINDOW.as_nanos()) as usize;
        if which >= windows {
            return rows;
        }
        let (began, waited, mut pairs) = (now, waited_ns(&schedstat), 0);
        while now < grid + WINDOW * (which as u32 + 1) {
            run(now);
            pairs += PAIRS_PER_LOOK;
            now = Instant::now();
        }
        let waited = waited_ns(&schedstat) - waited;
        rows += &format!("{number} {which} {pairs} {} {waited}\n", (now - began).as_nanos());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let windows: usize = arguments[1].parse().expect("windows");
    let is_random = arguments[2] == "random";
    let threads: usize = arguments[3].parse().expect("threads");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let (grid, start) = (OnceLock::new(), Barrier::new(threads + 1));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (handle, grid, start) = (runtime.handle().clone(), &grid, &start);
                scope.spawn(move || {
                    let _inside = handle.enter();
                    work(number, threads, windows, is_random, grid, start)
                })
            })
            .collect();
        start.wait();
        let _ = grid.set(Instant::now() + WARM);
        start.wait();
        std::thread::sleep(WARM);
        let began = unsafe { clock() };
        let rows: String = workers.into_iter().map(|worker| worker.join().expect("a worker")).collect();
        print!("{rows}cpu {}\n", (unsafe { clock() } - began) * 1000);
    });
    std::process::exit(0);
}
