# Functions every module uses to declare its targets: one place for warnings, sanitizers and layout.
#
#   walle_library(NAME wire DIR wire USES base INCLUDE ..)   -> target walle-device-wire from DIR/*.c
#   walle_program(NAME walle-gateway SOURCES ... USES ...)   -> bin/walle-gateway
#   walle_tests(DIR unit/wire USES wire)                     -> one ctest per test_*.c

set(WALLE_WARNINGS
    -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wvla -Wformat=2 -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wcast-align -Wimplicit-fallthrough
    -Wno-format-truncation) # snprintf cuts on purpose: every text has a named maximum

function(walle_compile_options target)
    target_compile_options(${target} PRIVATE ${WALLE_WARNINGS} -fvisibility=hidden)
    if(WALLE_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE $<$<CONFIG:Debug>:BASE_DEBUG=1>)
    walle_sanitize(${target})
endfunction()

# What ships names no folder of the machine that built it. Debug builds do, for debuggers.
set(WALLE_PATHS "$<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${CMAKE_BINARY_DIR}=build;-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>")

# Sanitizers and paths apply to foreign code we build too (the script VM), warnings do not.
function(walle_sanitize target)
    target_compile_options(${target} PRIVATE ${WALLE_PATHS})
    if(WALLE_FUZZ) # coverage of the libraries is what guides the fuzzer
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    if(WALLE_SANITIZE)
        target_compile_options(${target} PRIVATE -fsanitize=${WALLE_SANITIZE} -fno-omit-frame-pointer
            -fno-sanitize-recover=all)
        target_link_options(${target} PUBLIC -fsanitize=${WALLE_SANITIZE})
    endif()
endfunction()

function(walle_uses target)
    foreach(use ${ARGN})
        if(TARGET walle-${use})
            target_link_libraries(${target} PUBLIC walle-${use})
        else()
            target_link_libraries(${target} PUBLIC ${use})
        endif()
    endforeach()
endfunction()

function(walle_library)
    cmake_parse_arguments(A "" "NAME" "DIR;USES;INCLUDE;SOURCES" ${ARGN})
    set(target walle-${A_NAME})
    set(sources ${A_SOURCES})
    foreach(dir ${A_DIR})
        file(GLOB found CONFIGURE_DEPENDS ${dir}/*.c)
        list(APPEND sources ${found})
    endforeach()
    add_library(${target} STATIC ${sources})
    foreach(dir ${A_INCLUDE})
        target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${dir}>)
    endforeach()
    walle_compile_options(${target})
    walle_uses(${target} ${A_USES})
endfunction()

# A program's addresses to be set right when it starts, packed: a quarter of a megabyte less of what is read and stays resident.
# Whoever starts it must know how (DT_RELR: glibc 2.36), so only where the C library here does.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-z,pack-relative-relocs)
check_c_source_compiles("#include <features.h>
#if !__GLIBC_PREREQ(2, 36)
#error older
#endif
int main(void) { return 0; }" WALLE_PACKS_RELOCS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)

function(walle_program)
    cmake_parse_arguments(A "" "NAME" "SOURCES;USES" ${ARGN})
    add_executable(${A_NAME} ${A_SOURCES})
    walle_compile_options(${A_NAME})
    walle_uses(${A_NAME} ${A_USES})
    if(WALLE_PACKS_RELOCS)
        target_link_options(${A_NAME} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-Wl,-z,pack-relative-relocs>)
    endif()
endfunction()

# CUDA kernels as C++, run on the processor: a library that is loaded. Optimised in every build, as other kernels are.
# The thread sanitizer does not know stacks that take turns. The language of a file holds for one folder: call this where
# nobody builds the same files for a GPU.
function(walle_kernels_on_cpu name)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX)
    add_library(${name} MODULE ${ARGN})
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/engine ${CMAKE_SOURCE_DIR}/engine/include)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    target_compile_options(${name} PRIVATE -xc++ -O2 -Wall -Wextra -Wno-unused-function -fvisibility=hidden
        -fno-exceptions -fno-rtti)
    set_target_properties(${name} PROPERTIES CXX_STANDARD 17)
    if(NOT WALLE_SANITIZE MATCHES "thread")
        walle_sanitize(${name})
    endif()
endfunction()

# One program and one ctest entry per DIR/test_*.c, DIR/firsthour_*.c and DIR/hardening_*.c (the tests of numbered points, the
# latter of docs/SECURITY.md), named after the file.
function(walle_tests)
    cmake_parse_arguments(A "" "DIR;LABEL" "USES" ${ARGN})
    if(NOT A_LABEL)
        set(A_LABEL unit)
    endif()
    file(GLOB found CONFIGURE_DEPENDS ${A_DIR}/test_*.c ${A_DIR}/firsthour_*.c ${A_DIR}/hardening_*.c)
    foreach(source ${found})
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        walle_compile_options(${name})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)
        walle_uses(${name} ${A_USES} PkgConfig::CMOCKA)
        add_test(NAME ${name} COMMAND ${name})
        set_tests_properties(${name} PROPERTIES LABELS "${A_LABEL}" TIMEOUT 300)
    endforeach()
endfunction()

# One fuzz target per DIR/fuzz_*.c. With WALLE_FUZZ it is a libFuzzer program; otherwise a driver replays the
# seeds in seeds/NAME and a fixed number of mutations of them (NAME_MUTATIONS, where a slow one sets it), as an ordinary
# test.
function(walle_fuzzers)
    cmake_parse_arguments(A "" "DIR" "USES" ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${A_DIR}/fuzz_*.c)
    foreach(source ${found})
        get_filename_component(name ${source} NAME_WE)
        if(WALLE_FUZZ)
            add_executable(${name} ${source})
            target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        else()
            add_executable(${name} ${source} ${CMAKE_SOURCE_DIR}/tests/support/fuzz_driver.c)
            add_test(NAME ${name} COMMAND ${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/seeds/${name} ${${name}_MUTATIONS})
            set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
        endif()
        walle_compile_options(${name})
        target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support)
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
        walle_uses(${name} ${A_USES})
    endforeach()
endfunction()
