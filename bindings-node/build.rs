//! Tells the linker what Node expects of an addon.

use std::env;

fn main() {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // There napi-build looks for an import library of Node's functions, which `dyn-symbols` finds when the addon is loaded.
    if is("CARGO_CFG_TARGET_OS", "windows") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    napi_build::setup();
}
