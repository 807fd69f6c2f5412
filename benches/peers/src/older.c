/* What the crate calls and RocksDB 7.8, as Debian has it, lacks; nothing here comes to it. */
__attribute__((weak)) void rocksdb_write_buffer_manager_destroy(void *manager) { (void)manager; }
