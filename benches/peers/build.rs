//! A system's RocksDB may be older than the one whose calls the crate knows.

fn main() {
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo:rerun-if-changed=src/older.c");
    if std::env::var_os("ROCKSDB_LIB_DIR").is_some() {
        cc::Build::new()
            .file("src/older.c")
            .cargo_metadata(false)
            .compile("older");
        let folder = std::env::var("OUT_DIR").expect("cargo sets it");
        println!(
            "cargo:rustc-link-arg-bins=-Wl,--whole-archive,{folder}/libolder.a,--no-whole-archive"
        );
    }
}
