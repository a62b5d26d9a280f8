# Language level, warnings, sanitizers, compiler cache.
option(SXT_CUDA "Build the CUDA parts when nvcc and cuBLAS are both there" ON)
option(SXT_FUZZ "Build libFuzzer targets (needs Clang)" OFF)
option(SXT_UNITY "Compile sources in groups: quicker from nothing, slower after a change" OFF)
set(SXT_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Half of the time of a build goes into test sources, and optimizing those buys nothing; sanitizers
# make it worse. Kernels have their own level in any case.
if(SXT_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
endif()
set(SXT_TEST_FLAGS -O0)

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                    # The bits of a result must not depend on which products a compiler chose to
                    # fuse: kernels say fma where they mean it.
                    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
                    $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>
                    $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math>)

# Later GCCs raise false alarms inside the standard library's headers; they are shown, not fatal.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  foreach(warning array-bounds stringop-overflow stringop-overread maybe-uninitialized
                  free-nonheap-object restrict dangling-reference)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-error=${warning}>)
  endforeach()
endif()

# In a group every source is an included file, where GCC warns of classes with parts of unnamed
# namespaces; each is still defined in one source only.
if(SXT_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

if(SXT_SANITIZE)
  if(SXT_CUDA)
    message(FATAL_ERROR "sanitizers do not go with nvcc: add -DSXT_CUDA=OFF")
  endif()
  add_compile_options(-fsanitize=${SXT_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${SXT_SANITIZE})
  if(SXT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(SXT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SXT_FUZZ needs Clang: add -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # The modules report coverage too, or the fuzzer would be blind beyond its entry.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# CPU kernels are compiled for this level; `sextant` checks for it at start.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(SXT_KERNEL_FLAGS -O3 -march=x86-64-v3 -falign-loops=64)
  set(SXT_KERNEL_AVX512_FLAGS -O3 -march=x86-64-v4 -falign-loops=64)
  set(SXT_KERNEL_AVX512_BF16_FLAGS ${SXT_KERNEL_AVX512_FLAGS} -mavx512bf16)
else()
  set(SXT_KERNEL_FLAGS -O3)
endif()

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
