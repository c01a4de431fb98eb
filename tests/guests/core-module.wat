;; A core module: WebAssembly, but no component.
(module
  (memory (export "memory") 1)
  (func $run (export "run") (param i32 i32) (result i32) (i32.const 64))
)
