// busy_rust [CPU_MS]: main -> run -> alpha, beta or gamma (60 : 30 : 10) -> work_unit.
// std::hint::black_box is not yet stable in the oldest supported compiler.
#[inline(always)]
fn black_box(value: u64) -> u64 {
    unsafe { std::ptr::read_volatile(&value) }
}

const WORK_UNIT_STEPS: u32 = 10_000;

#[inline(never)]
fn work_unit(mut state: u64) -> u64 {
    for _ in 0..WORK_UNIT_STEPS {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
    }
    state
}

#[inline(never)]
fn alpha(seed: u64) -> u64 {
    black_box(work_unit(seed + 1)) ^ 1
}

#[inline(never)]
fn beta(seed: u64) -> u64 {
    black_box(work_unit(seed + 2)) ^ 2
}

#[inline(never)]
fn gamma(seed: u64) -> u64 {
    black_box(work_unit(seed + 3)) ^ 3
}

struct Units {
    alpha: u64,
    beta: u64,
    gamma: u64,
}

// CPU time of this thread so far: the first number of schedstat, in nanoseconds.
fn cpu_ms() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| {
            text.split(' ')
                .next()
                .and_then(|word| word.parse::<u64>().ok())
        })
        .map_or(0, |nanoseconds| nanoseconds / 1_000_000)
}

#[inline(never)]
fn run(limit_ms: u64) -> Units {
    let mut units = Units {
        alpha: 0,
        beta: 0,
        gamma: 0,
    };
    let mut random: u64 = 88172645463325252;
    let end = cpu_ms() + limit_ms;
    while cpu_ms() < end {
        for seed in 0..5000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match (random >> 33) % 100 {
                0..=59 => {
                    black_box(alpha(seed));
                    units.alpha += 1;
                }
                60..=89 => {
                    black_box(beta(seed));
                    units.beta += 1;
                }
                _ => {
                    black_box(gamma(seed));
                    units.gamma += 1;
                }
            }
        }
    }
    units
}

fn main() {
    let milliseconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1000);
    let units = run(milliseconds);
    println!(
        "{{\"program\":\"busy_rust\",\"units\":{{\"alpha\":{},\"beta\":{},\"gamma\":{}}},\"total\":{}}}",
        units.alpha,
        units.beta,
        units.gamma,
        units.alpha + units.beta + units.gamma
    );
}
