;; Returns a system failure that asks to be retried after 1,500 ms.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (data (i32.const 64) "\01\00\00\00" "\02\00\00\00" "\80\00\00\00" "\15\00\00\00" "\01\00\00\00" "\dc\05\00\00") ;; err, system, at 128, 21 long, some, 1500
    (data (i32.const 128) "the warehouse is busy")
    (func $run (export "run") (param i32 i32) (result i32) (i32.const 64))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
