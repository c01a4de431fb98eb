;; Moves a table of 100,000 elements up by one, again and again. Elements that were never looked at are made on the way.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1)
    (table $table 100000 funcref)
    (elem (i32.const 0) func $run $run)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (func $run (export "run") (param i32 i32) (result i32)
      (loop $forever
        (table.copy $table $table (i32.const 1) (i32.const 0) (i32.const 99999))
        (br $forever))
      unreachable)
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
