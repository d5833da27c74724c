// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests in processes of their own: a lost device and the memory of a whole process are no matter for the tests beside.

use std::process::Command;

const CHILD: &str = "FRAMECAST_TEST_CHILD";

/// Runs the ignored test `name` of this program in a process of its own.
#[track_caller]
pub fn in_child(name: &str) {
    child(name, &[]);
}

/// As `in_child`, with environment variables.
#[track_caller]
pub fn child(name: &str, variables: &[(&str, Option<&std::path::Path>)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(CHILD, name);
    for (variable, value) in variables {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{name}: {text}{errors}");
    print!("{text}");
}

/// Whether [`in_child`] started this process for the test `name`. `cargo test -- --ignored` starts it otherwise; there is
/// nothing to do then.
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|child| child == name)
}

/// Bytes of this process that are in memory; 0 on systems other than Linux.
pub fn resident() -> u64 {
    if !cfg!(target_os = "linux") {
        return 0;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
