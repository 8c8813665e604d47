// Without a file of assembler the compiler takes no function that has no body.
