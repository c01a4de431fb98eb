;; Fills one byte more than its memory of 64 MiB has, and must trap in the function that does it.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1024)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (func $spill (param $length i32)
      (memory.fill (i32.const 0) (i32.const 7) (local.get $length)))
    (func $run (export "run") (param i32 i32) (result i32)
      (call $spill (i32.const 0x4000001))
      unreachable)
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
