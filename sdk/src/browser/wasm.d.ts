// In workerd a module that is imported is compiled already.
declare module "*.wasm" {
  const compiled: WebAssembly.Module;
  export default compiled;
}
