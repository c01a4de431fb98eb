;; Calls `exit`, as if it had a process of its own.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "wasi:cli/exit@0.2.6" (instance $wasi (export "exit" (func (param "status" (result))))))
  ;; In a module of its own, because the host's functions need a memory before the guest can import them.
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $call (canon lower (func $wasi "exit")
    (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core module $guest
    (import "host" "exit" (func $call (param i32)))
    (func $run (export "run") (param i32 i32) (result i32) (call $call (i32.const 0)) unreachable)
  )
  (core instance $guest (instantiate $guest (with "host" (instance (export "exit" (func $call))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
