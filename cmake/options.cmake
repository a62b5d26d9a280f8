# Language level, warnings, sanitizers, compiler cache.
option(SXT_CUDA "Build the CUDA parts when nvcc and cuBLAS are both there" ON)
option(SXT_FUZZ "Build libFuzzer targets (needs Clang)" OFF)
set(SXT_SANITIZE "" CACHE STRING "Sanitizers, such as address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                    # The bits of a result must not depend on which products a compiler chose to
                    # fuse: kernels say fma where they mean it.
                    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
                    $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>
                    $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math>)

if(SXT_SANITIZE)
  add_compile_options(-fsanitize=${SXT_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${SXT_SANITIZE})
  if(SXT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# CPU kernels are compiled for this level; `sextant` checks for it at start.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(SXT_KERNEL_FLAGS -O3 -march=x86-64-v3)
  set(SXT_KERNEL_AVX512_FLAGS -O3 -march=x86-64-v4)
else()
  set(SXT_KERNEL_FLAGS -O3)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
