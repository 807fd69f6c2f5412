//! Tells the linker what Node expects of an addon.

fn main() {
    napi_build::setup();
}
