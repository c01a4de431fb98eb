;; A task in everything but that it imports an interface of somebody else's, which no host of tasks offers.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "acme:db/sql" (instance $sql
    (export "query" (func (param "statement" string) (result (list string))))))
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $query (canon lower (func $sql "query") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core module $guest
    (import "memory" "memory" (memory 1))
    (import "other" "query" (func $query (param i32 i32 i32)))
    ;; ok("null"), as it lies in memory: a tag, then the place and the length of the text.
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    (func $run (export "run") (param i32 i32) (result i32)
      (call $query (i32.const 128) (i32.const 4) (i32.const 16))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest
    (with "memory" (instance $memory))
    (with "other" (instance (export "query" (func $query))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
