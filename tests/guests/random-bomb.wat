;; Asks for more random bytes at once than any machine has memory for.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "wasi:random/random@0.2.6" (instance $wasi (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  ;; In a module of its own, because the host's functions need a memory before the guest can import them.
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $call (canon lower (func $wasi "get-random-bytes")
    (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core module $guest
    (import "host" "get-random-bytes" (func $call (param i64 i32)))
    (func $run (export "run") (param i32 i32) (result i32) (call $call (i64.const 0x7fffffffffffffff) (i32.const 16)) unreachable)
  )
  (core instance $guest (instantiate $guest (with "host" (instance (export "get-random-bytes" (func $call))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
