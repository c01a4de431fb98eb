;; Writes a line of each level to the log, then returns ok("null").
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "atropos:task/log@0.1.0" (instance $log
    (type $level' (enum "trace" "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $level')))
    (export "write" (func (param "level" $level) (param "message" string)))))
  ;; In a module of its own, because the host's functions need a memory before the guest can import them.
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $write (canon lower (func $log "write") (memory (core memory $memory "memory"))))
  (core module $guest
    (import "memory" "memory" (memory 1))
    (import "host" "write" (func $write (param i32 i32 i32)))
    ;; ok("null"), as it lies in memory: a tag, then the place and the length of the text.
    (data (i32.const 64) "\00\00\00\00" "\80\00\00\00" "\04\00\00\00")
    (data (i32.const 128) "null")
    (data (i32.const 192) "tracedebuginfowarnerror")
    (func $run (export "run") (param i32 i32) (result i32)
      (call $write (i32.const 0) (i32.const 192) (i32.const 5))
      (call $write (i32.const 1) (i32.const 197) (i32.const 5))
      (call $write (i32.const 2) (i32.const 202) (i32.const 4))
      (call $write (i32.const 3) (i32.const 206) (i32.const 4))
      (call $write (i32.const 4) (i32.const 210) (i32.const 5))
      (i32.const 64))
  )
  (core instance $guest (instantiate $guest
    (with "memory" (instance $memory))
    (with "host" (instance (export "write" (func $write))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
