def write_report(results):
    raise NotImplementedError
