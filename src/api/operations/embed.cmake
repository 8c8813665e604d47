# Writes the file INPUT as the C array NAME, with NAME_size, to OUTPUT.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
string(REGEX REPLACE "(('.x[0-9a-f][0-9a-f]',)('.x[0-9a-f][0-9a-f]',)?('.x[0-9a-f][0-9a-f]',)?('.x[0-9a-f][0-9a-f]',)?)"
    "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT}
    "#include <stddef.h>\n\nextern const char ${NAME}[];\nextern const size_t ${NAME}_size;\n\n"
    "const char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_size = sizeof(${NAME});\n")
