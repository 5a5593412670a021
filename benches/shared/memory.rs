//! Largest memory of a process, on Linux.

/// Largest resident memory of a process so far, in bytes (`VmHWM`); 0 if it has ended. `process` is its number, or `self`.
pub fn peak(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or_default() * 1024
}
