# Writes OUTPUT, a C file that holds the bytes of INPUT as gw_console_page. Run at build time.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){16})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "// Generated from gateway/console/index.html.
#include \"api/console_page.h\"

const uint8_t gw_console_page[] = {
${bytes}
};
const size_t gw_console_page_bytes = sizeof(gw_console_page);
")
