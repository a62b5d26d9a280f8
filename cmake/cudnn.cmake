# Decides whether attention on GPUs can use cuDNN: sets SXT_HAS_CUDNN, or notes what is missing.
# The library is loaded when it is first needed, so that programs also start where there is none:
# a build needs the headers, and remembers where the library was.
# Python packages have them too: nvidia-cudnn-cu13, which PyTorch brings, and nvidia-cudnn-frontend.
set(SXT_HAS_CUDNN "")
if(SXT_HAS_CUDA)
  find_program(SXT_PYTHON python3)
  mark_as_advanced(SXT_PYTHON)
  set(packages "")
  if(SXT_PYTHON)
    execute_process(COMMAND ${SXT_PYTHON} -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                    OUTPUT_VARIABLE packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_path(SXT_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
            ${packages}/nvidia/cudnn/include)
  find_path(SXT_CUDNN_FRONTEND cudnn_frontend.h HINTS ${packages}/include)
  find_library(SXT_CUDNN NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR}
               ${packages}/nvidia/cudnn/lib)
  find_library(SXT_CUDART NAMES cudart libcudart.so.13 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(SXT_CUDNN_INCLUDE SXT_CUDNN_FRONTEND SXT_CUDNN SXT_CUDART)
  if(SXT_CUDNN_INCLUDE AND SXT_CUDNN_FRONTEND AND SXT_CUDNN AND SXT_CUDART)
    set(SXT_HAS_CUDNN 1)
    list(APPEND SXT_LIBRARIES_ops ${CMAKE_DL_LIBS})
    set(SXT_OPTIONS_CUDNN -isystem${SXT_CUDNN_FRONTEND} -isystem${SXT_CUDNN_INCLUDE})
    foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
      list(APPEND SXT_OPTIONS_CUDNN -isystem${folder})
    endforeach()
    list(APPEND SXT_OPTIONS_CUDNN -DNV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
         -DCUDNN_FRONTEND_SKIP_JSON_LIB "-DSXT_CUDNN_LIBRARY=\"${SXT_CUDNN}\""
         "-DSXT_CUDART_LIBRARY=\"${SXT_CUDART}\"")
  endif()
  if(SXT_CUDNN_FRONTEND OR NOT SXT_CUDNN)
    note("cuDNN" "${SXT_HAS_CUDNN}" "faster attention on GPUs" "")
  else()
    note("headers of cudnn-frontend" "" "faster attention on GPUs, from pip's nvidia-cudnn-frontend"
         "")
  endif()
endif()
