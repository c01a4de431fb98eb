;; Moves 32 MiB without a loop. As it is, it does so once; a test puts hundreds of copies of the marked line into its
;; place: nothing but the copies themselves takes time.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (core module $guest
    (memory (export "memory") 1024)
    ;; ok("null"), as it lies in memory: a tag, then the place and the length of the text.
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
    (func $run (export "run") (param i32 i32) (result i32)
      (memory.copy (i32.const 0) (i32.const 0x2000000) (i32.const 0x2000000)) ;; repeat
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))))
)
