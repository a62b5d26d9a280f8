# Decides whether ranks on several GPUs can communicate by NCCL: sets SXT_HAS_NCCL, or notes what is
# missing. The library is loaded when it is first needed, so that programs also start where there is
# none: a build needs the header, and remembers where the library was.
# The Python package nvidia-nccl-cu13, which PyTorch brings, has both.
set(SXT_HAS_NCCL "")
if(SXT_HAS_CUDA)
  find_path(SXT_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${packages}/nvidia/nccl/include)
  find_library(SXT_NCCL NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR}
               ${packages}/nvidia/nccl/lib)
  mark_as_advanced(SXT_NCCL_INCLUDE SXT_NCCL)
  if(SXT_NCCL_INCLUDE)
    set(SXT_HAS_NCCL 1)
    list(APPEND SXT_LIBRARIES_comm ${CMAKE_DL_LIBS})
    set(SXT_OPTIONS_NCCL -isystem${SXT_NCCL_INCLUDE})
    foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
      list(APPEND SXT_OPTIONS_NCCL -isystem${folder})
    endforeach()
    set(nccl_library libnccl.so)
    if(SXT_NCCL)
      set(nccl_library ${SXT_NCCL})
    endif()
    list(APPEND SXT_OPTIONS_NCCL "-DSXT_NCCL_LIBRARY=\"${nccl_library}\"")
  endif()
  note("NCCL" "${SXT_HAS_NCCL}" "several GPUs" "")
endif()
