# The program of lackey.txt: gcc -nostdlib -static -o t lackey.s, then
# valgrind --tool=lackey --trace-mem=yes --log-file=lackey.txt ./t
.globl _start
.bss
.balign 4096
buf: .skip 8192
.text
_start:
  mov $8,%ecx
  lea buf(%rip),%rsi
1: mov (%rsi),%rax
  addq $1,8(%rsi)
  movups 56(%rsi),%xmm0
  mov %rax,16(%rsi)
  push %rax
  pop %rax
  add $64,%rsi
  dec %ecx
  jnz 1b
  mov $60,%eax
  xor %edi,%edi
  syscall
