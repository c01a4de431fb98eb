;; Returns ok with a JSON text of 32 MiB: spaces, and a 1 at the end.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 513)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (data (i32.const 64) "\00\00\00\00" "\00\00\01\00" "\00\00\00\02") ;; ok, at 0x10000, 0x2000000 long
    (func $run (export "run") (param i32 i32) (result i32)
      (memory.fill (i32.const 0x10000) (i32.const 0x20) (i32.const 0x1ffffff))
      (i32.store8 (i32.const 0x200ffff) (i32.const 0x31))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
