# Compiler settings that hold for every target.
option(ANTIPHON_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(ANTIPHON_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(ANTIPHON_PYTHON_MODULE "Build the Python package into BUILD/python (needs nanobind)" OFF)
option(ANTIPHON_FUZZ "Build the fuzz targets (clang, libFuzzer)" OFF)
option(ANTIPHON_WERROR "Warnings are errors; for developers and continuous integration" OFF)
option(ANTIPHON_JUMBO "Compile several sources at once: quicker from nothing, slower after a change" OFF)
set(ANTIPHON_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
# What is installed finds the libraries of others, too, that lie in places of their own.
if(CMAKE_PREFIX_PATH OR DEFINED ENV{CMAKE_PREFIX_PATH})
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT ANTIPHON_SANITIZE AND NOT ANTIPHON_FUZZ)
  add_link_options(-fuse-ld=mold)
endif()

# A compiler newer than the developers' has warnings that nobody has seen yet: they are errors for developers alone.
add_compile_options(-Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<BOOL:${ANTIPHON_WERROR}>:-Werror> -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms on "text" + std::string (GCC bug 105651)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-dangling-pointer)  # gcc 14 doubts OpenFst's determinization (fst/bi-table.h)
endif()
# Contracted multiply-adds would make results depend on the compiler's mood; kernels ask for FMA themselves.
add_compile_options(-ffp-contract=off)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)")
  # Kernels keep vectors in arrays, which SVE's cannot be: NEON alone.
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()
if(ANTIPHON_SANITIZE)
  add_compile_options(-fsanitize=${ANTIPHON_SANITIZE} -fno-omit-frame-pointer -g1 -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${ANTIPHON_SANITIZE})
  if(ANTIPHON_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # fences, which the sanitizer does not see, in Boost's sockets
  endif()
endif()
if(ANTIPHON_FUZZ)
  # gcc is the compiler whose warnings are errors.
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-error
                      -fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/cmake/sanitizer_ignore.txt)
endif()
