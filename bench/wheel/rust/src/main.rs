//! The workloads of workloads.h for hierarchical_hash_wheel_timer: wheel_rust [timers].

use hierarchical_hash_wheel_timer::wheels::cancellable::QuadWheelWithOverflow;
use hierarchical_hash_wheel_timer::IdOnlyTimerEntry;
use std::time::Duration;

const HOUR: u32 = 3600000;
const TIMEOUT: u32 = 30000;
const PERIOD_MAX: u32 = 10000;
const OPS_PER_TICK: usize = 1000;
const CHURN_OPS: usize = 1 << 25;
const CHECKED: u32 = 16;
const PICKS: usize = 1 << 22;
const PATIENCE_NS: u64 = 1500000000;
const SLOW_STEP: u64 = 200000; // nanoseconds

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

extern "C" {
    fn clock_gettime(clock: i32, ret_time: *mut Timespec) -> i32;
}

/// Nanoseconds that this thread has run, as bench_now.
fn now_ns() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    let mut time = Timespec { sec: 0, nsec: 0 };
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.sec as u64 * 1000000000 + time.nsec as u64
}

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

struct Input {
    delays: Vec<u32>,
    order: Vec<u32>,
    periods: Vec<u32>,
    picks: Vec<u32>,
}

fn make_input(count: usize) -> Input {
    let mut state: u64 = 0x9e3779b97f4a7c15;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state.wrapping_mul(2685821657736338717) >> 32) * bound as u64 >> 32) as u32
    };
    let (mut delays, mut periods) = (vec![0; count], vec![0; count]);
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in 0..count {
        delays[i] = 1 + below(HOUR as usize);
        periods[i] = 1 + below(PERIOD_MAX as usize);
    }
    for i in (1..count).rev() {
        order.swap(i, below(i + 1) as usize);
    }
    let picks = (0..PICKS).map(|_| below(count)).collect();
    Input { delays, order, periods, picks }
}

/// The wheel counts from 0 and is told delays.
struct Timers {
    wheel: QuadWheelWithOverflow<IdOnlyTimerEntry<u32>>,
    now: u32,
    fired: Vec<u32>,
}

impl Timers {
    fn new() -> Timers {
        Timers { wheel: QuadWheelWithOverflow::new(), now: 0, fired: Vec::new() }
    }

    fn place(&mut self, id: u32, deadline: u32) {
        let delay = Duration::from_millis((deadline - self.now) as u64);
        self.wheel.insert(IdOnlyTimerEntry { id, delay }).expect("insert");
    }

    fn cancel(&mut self, id: u32) {
        let _ = self.wheel.cancel(&id);
    }

    fn advance(&mut self) {
        self.now += 1;
        let fired = &mut self.fired;
        fired.extend(self.wheel.tick().iter().map(|entry| entry.id));
    }
}

fn fill(timers: &mut Timers, input: &Input) -> f64 {
    let began = now_ns();
    for (i, delay) in input.delays.iter().enumerate() {
        timers.place(i as u32, *delay);
    }
    (now_ns() - began) as f64 / input.delays.len() as f64
}

fn expire(input: &Input) -> f64 {
    let mut timers = Timers::new();
    fill(&mut timers, input);
    let (mut sum, mut mix) = (0, 0);
    let began = now_ns();
    for _ in 0..HOUR {
        timers.advance();
        sum += timers.fired.len();
        mix = timers.fired.drain(..).fold(mix, |mix, id| mix ^ id);
    }
    let took = now_ns() - began;
    assert!(sum == input.delays.len() && mix != u32::MAX, "expire: not all fired");
    took as f64 / sum as f64
}

fn slow_steps(input: &Input) -> (u32, u32) {
    let mut timers = Timers::new();
    fill(&mut timers, input);
    let (mut slow, mut latest, mut last) = (0, 0, now_ns());
    for _ in 0..HOUR {
        timers.advance();
        let time = now_ns();
        slow += u32::from(time - last > SLOW_STEP);
        last = time;
        if !timers.fired.is_empty() {
            for id in timers.fired.drain(..) {
                let late = timers.now.checked_sub(input.delays[id as usize]);
                latest = latest.max(late.expect("expire: early"));
            }
            last = now_ns();
        }
    }
    (slow, latest)
}

fn churn_some(timers: &mut Timers, input: &Input) -> usize {
    let end = now_ns() + PATIENCE_NS;
    let mut op = 0;
    while op < CHURN_OPS {
        for k in op..op + OPS_PER_TICK {
            let id = input.picks[k & (PICKS - 1)];
            timers.cancel(id);
            timers.place(id, timers.now + TIMEOUT);
        }
        timers.advance();
        for id in std::mem::take(&mut timers.fired) {
            timers.place(id, timers.now + TIMEOUT);
        }
        op += OPS_PER_TICK;
        if timers.now % CHECKED == 0 && now_ns() > end {
            return op;
        }
    }
    CHURN_OPS
}

fn churn(input: &Input, cut: &mut Vec<&str>) -> (f64, usize) {
    let mut timers = Timers::new();
    for (i, delay) in input.delays.iter().enumerate() {
        timers.place(i as u32, 1 + delay % TIMEOUT);
    }
    let warmed_up = churn_some(&mut timers, input);
    let began = now_ns();
    let moved = churn_some(&mut timers, input);
    if warmed_up < CHURN_OPS || moved < CHURN_OPS {
        cut.push("\"churn\"");
    }
    ((now_ns() - began) as f64 / moved as f64, moved)
}

fn periodic_some(timers: &mut Timers, input: &Input, end: u32) -> usize {
    let patience = now_ns() + PATIENCE_NS;
    let mut sum = 0;
    while timers.now + 1 < end && (timers.now % CHECKED != 0 || now_ns() < patience) {
        timers.advance();
        sum += timers.fired.len();
        for id in std::mem::take(&mut timers.fired) {
            timers.place(id, timers.now + input.periods[id as usize]);
        }
    }
    sum
}

fn periodic(input: &Input, cut: &mut Vec<&str>) -> (f64, usize) {
    let mut timers = Timers::new();
    for (i, delay) in input.delays.iter().enumerate() {
        timers.place(i as u32, 1 + delay % input.periods[i]);
    }
    periodic_some(&mut timers, input, PERIOD_MAX / 5);
    let is_cut = timers.now + 1 < PERIOD_MAX / 5;
    let began = now_ns();
    let fired = periodic_some(&mut timers, input, PERIOD_MAX + 1);
    if is_cut || timers.now < PERIOD_MAX {
        cut.push("\"periodic\"");
    }
    ((now_ns() - began) as f64 / fired as f64, fired)
}

fn burst(input: &Input) -> f64 {
    let mut timers = Timers::new();
    for id in &input.order {
        timers.place(*id, 1000);
    }
    for _ in 1..1000 {
        timers.advance();
    }
    assert!(timers.fired.is_empty(), "burst: early");
    timers.fired.reserve(input.order.len());
    let began = now_ns();
    timers.advance();
    let mix = timers.fired.iter().fold(0, |mix, id| mix ^ id);
    let took = now_ns() - began;
    assert!(timers.fired.len() == input.order.len() && mix != u32::MAX, "burst: not all fired");
    took as f64 / timers.fired.len() as f64
}

fn main() {
    let count = std::env::args().nth(1).map_or(1000000, |text| text.parse().unwrap());
    let input = make_input(count);
    let mut cut = Vec::new();
    let before = resident();
    let mut timers = Timers::new();
    let filled = fill(&mut timers, &input);
    let bytes = (resident() - before) as f64 / count as f64;
    let began = now_ns();
    for id in &input.order {
        timers.cancel(*id);
    }
    let cancelled = (now_ns() - began) as f64 / count as f64;
    drop(timers);
    let expired = expire(&input);
    let (slow, late_ticks) = slow_steps(&input);
    let (churned, churn_count) = churn(&input, &mut cut);
    let (refired, fired_count) = periodic(&input, &mut cut);
    let at_once = burst(&input);
    println!(
        "{{\"name\": \"hierarchical_hash_wheel_timer\", \"kind\": \"peer\", \"note\": \"4 x 256; virtual \
         time; cancel takes it out of a map, the wheel's entry stays until it comes up\", \
         \"version\": \"1.4.0\", \"late_ticks\": {late_ticks}, \"churn_count\": {churn_count}, \"fired_count\": {fired_count}, \
         \"cut\": [{}], \"figures\": {{\"fill\": {filled:.3}, \"cancel\": {cancelled:.3}, \
         \"expire\": {expired:.3}, \"churn\": {churned:.3}, \"periodic\": {refired:.3}, \
         \"burst\": {at_once:.3}, \"bytes\": {bytes:.3}, \"slow_steps\": {slow}}}}}",
        cut.join(", ")
    );
}
