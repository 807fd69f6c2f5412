//! Has `core/engine` built with Shuttle's locks and threads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=runlog_shuttle");
}
