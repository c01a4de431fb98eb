;; Looks once whether it is asked to stop, and returns `stopped` if so; after that it waits for ever and does not listen.
(component
  (import "atropos:task/failures@0.1.0" (instance $failures
    (type $system' (record (field "message" string) (field "retry-after-ms" (option u32))))
    (export "system-failure" (type $system (eq $system')))
    (type $failure' (variant (case "stopped") (case "business" string) (case "system" $system) (case "fatal" string)))
    (export "failure" (type (eq $failure')))))
  (alias export $failures "failure" (type $failure))
  (import "atropos:task/lifecycle@0.1.0" (instance $lifecycle
    (type $reason' (enum "cancelled" "timed-out" "shutting-down"))
    (export "stop-reason" (type $reason (eq $reason')))
    (type $request' (record (field "reason" $reason) (field "grace-ms" u32) (field "message" string)))
    (export "stop-request" (type $request (eq $request')))
    (export "sleep" (func (param "ms" u32) (result (option $request))))))
  ;; In a module of its own, because the host's functions need a memory before the guest can import them.
  (core module $memory
    (memory (export "memory") 1)
    ;; Everything that comes in is put at the same place: this guest reads none of it.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 4096))
  )
  (core instance $memory (instantiate $memory))
  (core func $sleep (canon lower (func $lifecycle "sleep") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
  (core module $guest
    (import "memory" "memory" (memory 1))
    (import "host" "sleep" (func $sleep (param i32 i32)))
    ;; err(stopped), as it lies in memory: two tags.
    (data (i32.const 64) "\01\00\00\00" "\00\00\00\00")
    (func $run (export "run") (param i32 i32) (result i32)
      (call $sleep (i32.const 1) (i32.const 16)) ;; answers at 16: a tag, 1 when there is a request
      (if (i32.load8_u (i32.const 16)) (then (return (i32.const 64))))
      (loop $forever
        (call $sleep (i32.const 0xffffffff) (i32.const 16))
        (br $forever))
      unreachable)
  )
  (core instance $guest (instantiate $guest
    (with "memory" (instance $memory))
    (with "host" (instance (export "sleep" (func $sleep))))))
  (func (export "run") (param "input" string) (result (result string (error $failure)))
    (canon lift (core func $guest "run") (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
)
