# A module is a folder of src/ with one job: one static library, tests beside the sources.
#   sextant_module(<name> [DEPS <module>...])
# Sources: *.cpp of the folder and of its private folders; *_test.cpp become <name>_test,
# *_fuzz.cpp become fuzz targets. No file is listed by hand.
# With SXT_UNITY sources are compiled in groups, so that headers are read once for all of them. Names in
# unnamed namespaces then meet; kernels stay by themselves, and comm/threads (GCC 12 takes a group of it
# three times as long; with sanitizers, all of comm, more than ten minutes).
# What needs an optional library lies in a folder of its name, and what stands in for it, with the
# same functions, in no_<name>/: one of the two is built, so no source asks which. The former are
# compiled with SXT_OPTIONS_<NAME>.
include(GoogleTest)
set(SXT_OPTIONAL_FOLDERS pcre2 zstd mpi cudnn nccl)
# Modules where no time is spent: optimizing them takes longer than it gains.
set(SXT_COLD_MODULES bench cli config formats train)
set(SXT_ALONE "\\.cu$|/cuda/|/cpu/|_pictures\\.cpp$|/comm/threads/")
if(SXT_SANITIZE)
  string(APPEND SXT_ALONE "|/src/comm/")
endif()

# Groups of sources in one target.
function(sextant_group target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SXT_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "${SXT_ALONE}")
  if(sources)
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# Kernels with instructions of Hopper alone, *_sm90a.cu, are compiled for it whatever the other
# architectures are; they are launched on such a GPU only. In ${sources} their objects take their place.
function(sextant_hopper_kernels name sources)
  set(hopper_sources ${${sources}})
  list(FILTER hopper_sources INCLUDE REGEX "_sm90a\\.cu$")
  if(NOT hopper_sources)
    return()
  endif()
  add_library(sextant_${name}_sm90a OBJECT ${hopper_sources})
  set_target_properties(sextant_${name}_sm90a PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_include_directories(sextant_${name}_sm90a PRIVATE ${CMAKE_SOURCE_DIR}/src)
  list(REMOVE_ITEM ${sources} ${hopper_sources})
  set(${sources} ${${sources}} $<TARGET_OBJECTS:sextant_${name}_sm90a> PARENT_SCOPE)
endfunction()

function(sextant_module name)
  cmake_parse_arguments(MODULE "" "" "DEPS" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/src/${name})
  if(NOT IS_DIRECTORY ${dir})
    message(FATAL_ERROR "module ${name}: there is no folder src/${name}")
  endif()
  set_property(GLOBAL APPEND PROPERTY SXT_MODULES ${name})
  set_property(GLOBAL PROPERTY SXT_MODULE_DEPS_${name} ${MODULE_DEPS})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cpp ${dir}/cpu/*.cpp ${dir}/threads/*.cpp
       ${dir}/store/*.cpp)
  file(GLOB tests CONFIGURE_DEPENDS ${dir}/*_test.cpp ${dir}/cpu/*_test.cpp
       ${dir}/threads/*_test.cpp ${dir}/store/*_test.cpp)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${dir}/*_fuzz.cpp)
  list(REMOVE_ITEM sources ${tests} ${fuzzers} ${dir}/main.cpp)
  foreach(folder ${SXT_OPTIONAL_FOLDERS})
    string(TOUPPER ${folder} feature)
    if(NOT SXT_HAS_${feature})
      set(folder no_${folder})
    endif()
    file(GLOB optional_sources CONFIGURE_DEPENDS ${dir}/${folder}/*.cpp)
    list(APPEND sources ${optional_sources})
    if(optional_sources AND SXT_HAS_${feature} AND SXT_OPTIONS_${feature})
      set_source_files_properties(${optional_sources} PROPERTIES
                                  COMPILE_OPTIONS "${SXT_OPTIONS_${feature}}")
    endif()
  endforeach()
  file(GLOB kernels CONFIGURE_DEPENDS ${dir}/cpu/*.cpp)
  foreach(kernel ${kernels})
    if(kernel MATCHES "_avx512\\.cpp$")
      set_source_files_properties(${kernel} PROPERTIES COMPILE_OPTIONS "${SXT_KERNEL_AVX512_FLAGS}")
    elseif(kernel MATCHES "_avx512_bf16\\.cpp$")
      set_source_files_properties(${kernel} PROPERTIES
                                  COMPILE_OPTIONS "${SXT_KERNEL_AVX512_BF16_FLAGS}")
    else()
      set_source_files_properties(${kernel} PROPERTIES COMPILE_OPTIONS "${SXT_KERNEL_FLAGS}")
    endif()
  endforeach()
  if(SXT_HAS_CUDA)
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${dir}/cuda/*.cu ${dir}/cuda/*.cpp)
    sextant_hopper_kernels(${name} cuda_sources)
  else()
    file(GLOB cuda_sources CONFIGURE_DEPENDS ${dir}/no_cuda/*.cpp)
  endif()

  if(sources OR cuda_sources)
    add_library(sextant_${name} STATIC ${sources} ${cuda_sources})
    sextant_group(sextant_${name})
    if(name IN_LIST SXT_COLD_MODULES)
      target_compile_options(sextant_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
    endif()
    target_include_directories(sextant_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    set(kind PUBLIC)
  else()
    add_library(sextant_${name} INTERFACE)
    target_include_directories(sextant_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    set(kind INTERFACE)
  endif()
  foreach(dep ${MODULE_DEPS})
    if(NOT TARGET sextant_${dep})
      message(FATAL_ERROR "module ${name} may include ${dep}, which is not listed above it")
    endif()
    target_link_libraries(sextant_${name} ${kind} sextant_${dep})
  endforeach()
  target_link_libraries(sextant_${name} ${kind} ${SXT_LIBRARIES_${name}} Threads::Threads)
  if(cuda_sources AND SXT_HAS_CUDA)
    target_link_libraries(sextant_${name} ${kind} CUDA::cudart_static)
  endif()

  if(tests AND NOT SXT_FUZZ)
    add_executable(${name}_test ${tests})
    sextant_group(${name}_test)
    target_compile_options(${name}_test PRIVATE ${SXT_TEST_FLAGS})
    target_link_libraries(${name}_test sextant_${name} sextant_test_support GTest::gtest_main)
    sextant_discover(${name}_test)
  endif()
  foreach(fuzzer ${fuzzers})
    sextant_fuzz_target(${name} ${fuzzer})
  endforeach()
endfunction()

# Tests of a suite or name with `Cuda` in it carry the label gpu and skip themselves without one;
# those with `Slow` in it the label slow, all others fast. COST makes the long ones start first, also
# in a clone where ctest has no times yet. Under a sanitizer a test takes some ten times as long.
function(sextant_discover target)
  set(fast_timeout 300)
  if(SXT_SANITIZE)
    set(fast_timeout 1200)
  endif()
  gtest_discover_tests(${target} TEST_FILTER "-*Slow*:*Cuda*" DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS fast TIMEOUT ${fast_timeout})
  gtest_discover_tests(${target} TEST_FILTER "*Slow*-*Cuda*" DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS slow TIMEOUT 900 COST 10)
  gtest_discover_tests(${target} TEST_FILTER "*Cuda*" DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS gpu TIMEOUT 600 RESOURCE_LOCK gpu)
endfunction()

# With SXT_FUZZ a libFuzzer program, built by the target `fuzzers`; otherwise the same entry replays
# its corpus as a test.
add_custom_target(fuzzers)
function(sextant_fuzz_target module source)
  get_filename_component(stem ${source} NAME_WE)
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/${stem})
  add_executable(${stem} ${source})
  target_link_libraries(${stem} sextant_${module})
  if(SXT_FUZZ)
    target_compile_options(${stem} PRIVATE -fsanitize=fuzzer)
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${stem} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
    add_dependencies(fuzzers ${stem})
  else()
    target_sources(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
    add_test(NAME fuzz_corpus.${stem} COMMAND ${stem} ${corpus})
    set_tests_properties(fuzz_corpus.${stem} PROPERTIES LABELS fast TIMEOUT 120)
  endif()
endfunction()

# The one program: the module's sources plus main.cpp, linked as build/sextant. build/sextant-bench has
# the same commands and counts heap allocations.
function(sextant_program name)
  cmake_parse_arguments(MODULE "" "" "DEPS" ${ARGN})
  if(SXT_FUZZ OR NOT EXISTS ${CMAKE_SOURCE_DIR}/src/${name}/main.cpp)
    return()
  endif()
  sextant_module(${name} DEPS ${MODULE_DEPS})
  add_executable(sextant ${CMAKE_SOURCE_DIR}/src/${name}/main.cpp)
  target_link_libraries(sextant sextant_${name})
  add_executable(sextant-bench ${CMAKE_SOURCE_DIR}/bench/sextant_bench.cpp)
  target_link_libraries(sextant-bench sextant_${name})
  set_target_properties(sextant sextant-bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                                         ${CMAKE_BINARY_DIR})
endfunction()
